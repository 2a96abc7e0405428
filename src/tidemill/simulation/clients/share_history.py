"""What the members of a simulated share group were told, and its checks."""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from tidemill.simulation.clients.client import Address
from tidemill.simulation.invariant_violation import InvariantViolation

Term = Callable[[Address, int], int | None]
"""Returns the term in which the broker at an address leads a partition; None unless it is the newest term."""


Delay = Callable[[int], float]
"""Returns the delay of a record after its delivery with a number, in seconds."""

SAFE_LOCK_S: Final = 0.8  # less than the lock duration of 1 s, on any broker's clock
SLOW_CLOCK: Final = 0.9  # a broker's clock may be fast by nearly this factor, so that its delays are shorter


class _Released(NamedTuple):
    """A release that the leader of a term has confirmed."""

    term: int
    delivery_count: int
    asked_at: float  # when the release was sent: before the delay began


class ShareHistory:
    """The deliveries and acknowledgements of one share group on one topic."""

    def __init__(self, delivery_limit: int, term: Term, delay: Delay) -> None:
        self.term = term
        self.accepted: set[tuple[int, int]] = set()  # (partition, offset): the broker has confirmed the acceptance
        self.finishing: set[tuple[int, int]] = (
            set()
        )  # (partition, offset): a member accepted or rejected it, or may have
        self.accepting: set[tuple[int, int]] = set()  # (partition, offset): a member has tried to accept it
        self.deliveries = 0
        self.is_ordered = False  # whether the group has an order by key
        self.waits_at_failover = False  # whether tidemill.share.failover.wait is true
        self._last_asked: dict[int, tuple[int, float]] = {}  # partition → newest term, time of its last answered fetch
        self._newest: dict[tuple[int, bytes], int] = {}  # the last delivered offset of each partition and key
        self.outcomes: Counter[str] = Counter()  # the answers to acknowledgements, by kind and error
        self.delayed = 0  # deliveries that came after their delay
        self.renewed = 0  # locks that were renewed
        # The delivery count from which a record may be finished although no member receives it again.
        self.last_count = delivery_limit
        self._delivery_limit = delivery_limit  # the highest one
        # (term, partition, offset, delivery count): what the newest leader has delivered.
        self._delivered: set[tuple[int, int, int, int]] = set()
        self._delay = delay
        self._released: dict[tuple[int, int], _Released] = {}

    def accepted_before(self, number: int) -> frozenset[int]:
        """Return the offsets of a partition whose acceptance has been confirmed."""
        return frozenset(offset for partition, offset in self.accepted if partition == number)

    def delivered(
        self,
        member: str,
        number: int,
        offsets: range,
        count: int,
        accepted_before: frozenset[int] | None,
        *,
        term: int | None,
    ) -> None:
        """
        Check a delivery.  `accepted_before` are the offsets that had been accepted when the fetch was sent, or None if
        the broker that has answered was not the newest leader in all that time: a leader that is cut off may deliver
        records that its successor has finished.  `term` is the term of the newest leader, and None for any other one:
        within a term, each delivery of a record has a count of its own.
        """
        self.deliveries += len(offsets)
        if term is not None:
            delivered = {(term, number, offset, count) for offset in offsets}
            if again := self._delivered & delivered:
                raise InvariantViolation(
                    f"{member} received what has been delivered with the same count before: (term, partition, offset, "
                    f"count) {sorted(again)}"
                )
            self._delivered |= delivered
        if count >= self.last_count:
            self.finishing.update((number, offset) for offset in offsets)
        if not 1 <= count <= self._delivery_limit:
            raise InvariantViolation(
                f"{member} received {offsets} of partition {number} with the delivery count {count}; the limit is "
                f"{self._delivery_limit}"
            )
        if accepted_before is not None:
            accepted = accepted_before.intersection(offsets)
            if accepted:
                raise InvariantViolation(
                    f"{member} received {sorted(accepted)} of partition {number} after they had been accepted"
                )

    def released(self, number: int, offset: int, count: int, *, term: int, asked_at: float) -> None:
        """Note a confirmed release of a record that was delivered in the same term."""
        self._released[number, offset] = _Released(term, count, asked_at)

    def check_delay(self, number: int, offsets: range, count: int, *, term: int, now: float) -> None:
        """
        Check that records that the leader of a term delivers again come after their delay.  Other leaders are not
        compared, because their clocks differ.
        """
        for offset in offsets:
            released = self._released.get((number, offset))
            if released is not None and released[:2] == (term, count - 1):
                waited, delay = now - released.asked_at, self._delay(released.delivery_count)
                if waited < delay * SLOW_CLOCK:
                    raise InvariantViolation(
                        f"offset {offset} of partition {number} was delivered {waited:.3f} s after its release, not "
                        f"{delay:.3f} s"
                    )
                self.delayed += 1

    def check_wait(self, member: str, number: int, *, term: int, asked_at: float, now: float) -> None:
        """
        Check that the leader of a term delivers nothing while a consumer may hold what an earlier leader has delivered.

        `asked_at` is when the fetch was sent: before its locks began.
        """
        before, last_asked_at = self._last_asked.get(number, (term, 0.0))
        if term < before:
            return
        if self.waits_at_failover and term > before and now < last_asked_at + SAFE_LOCK_S:
            raise InvariantViolation(
                f"{member} received records of partition {number} in term {term}, only {now - last_asked_at:.3f} s "
                f"after a fetch that was answered in term {before}"
            )
        self._last_asked[number] = term, max(asked_at, last_asked_at if term == before else 0.0)

    def delivered_with_key(self, member: str, number: int, offset: int, key: bytes) -> None:
        """
        Check that a record with a key was delivered in order.  Call this only if the broker was the newest leader from
        the fetch to the answer.
        """
        before = self._newest.get((number, key), offset)
        self._newest[number, key] = max(before, offset)
        if not self.is_ordered or before == offset:
            return
        if before > offset or (number, before) not in self.finishing:
            raise InvariantViolation(
                f"{member} received offset {offset} of partition {number} with the key {key!r} out of order: offset "
                f"{before} was delivered before"
            )

    def check_all_delivered(self, number: int, offsets: range) -> None:
        """Check that no record was lost: the group has finished these offsets, so members must have finished each."""
        lost = [offset for offset in offsets if (number, offset) not in self.finishing]
        if lost:
            raise InvariantViolation(f"the group has finished partition {number}, but no member finished {lost}")
