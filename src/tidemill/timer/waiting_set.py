"""What waits of one timer partition, as all replicas know it: it changes by committed entries only, in their order.

arrive ─▶ waits ─▶ released, cancelled, or replaced by a later arrival with the same id: over, for good
             └─▶ rescheduled: waits on, until another time

The ids of timers are hashes, so that each takes a fixed size.  They are not part of the encoded state: a replica that
restores it reads them from the arrivals that wait.  Encoded, integers big-endian:

    version      1   1
    base         8   the first arrival that waits, or `end`
    end          8   the next arrival number
    bits         …   `waiting_bits`
    rescheduled  4   count; each: arrival uint64, due int64 in milliseconds since the epoch
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from struct import Struct
from typing import Final, NamedTuple

from tidemill.timer.waiting_bits import BitView, MalformedBits, WaitingBits

VERSION: Final = 1
ID_BYTES: Final = 16
_HEAD: Final = Struct(">BQQI")  # with the size of the bits
_COUNT: Final = Struct(">I")
_MOVED: Final = Struct(">Qq")


class Arrival(NamedTuple):
    """A record of the arrivals log."""

    due_ms: int
    timer_id: bytes | None = None  # the hash of its id; None if it has none
    only_cancels: bool = False  # it cancels the timer with its id, and waits for nothing itself


class Outcome(NamedTuple):
    """What has become of the arrivals, or ids, that a request named."""

    changed: int = 0  # cancelled or rescheduled
    over: int = 0  # they were over before: released, cancelled or replaced
    unknown: int = 0  # there are no such arrivals, or no timer with such an id waits


class WaitingView(NamedTuple):
    """A copy of what waits, for other threads."""

    bits: WaitingBits
    moved: Mapping[int, int]

    @property
    def first(self) -> int:
        return self.bits.first_waiting()

    @property
    def end(self) -> int:
        return self.bits.end

    def waits(self, number: int) -> bool:
        return self.bits.waits(number)

    def due_ms(self, number: int, at_arrival_ms: int) -> int:
        """Return when an arrival is due; `at_arrival_ms` unless it was rescheduled."""
        return self.moved.get(number, at_arrival_ms)


class WaitingSet:
    def __init__(self, base: int = 0) -> None:
        """Nothing waits, and the next arrival has the number `base`."""
        self._bits = WaitingBits(base)
        self._of_id: dict[bytes, int] = {}
        self._ids: dict[int, bytes] = {}  # of arrivals that wait
        self._moved: dict[int, int] = {}  # arrivals that were rescheduled and wait: when they are due

    @property
    def end(self) -> int:
        return self._bits.end

    @property
    def count(self) -> int:
        """How many arrivals wait."""
        return self._bits.count

    def first_waiting(self) -> int:
        """Return the first arrival that waits, or `end`: no byte of an earlier one is needed any more."""
        return self._bits.first_waiting()

    def waits(self, number: int) -> bool:
        return self._bits.waits(number)

    def due_ms(self, number: int, at_arrival_ms: int) -> int:
        """Return when an arrival is due; `at_arrival_ms` unless it was rescheduled."""
        return self._moved.get(number, at_arrival_ms)

    def view(self) -> WaitingView:
        return WaitingView(deepcopy(self._bits), dict(self._moved))

    @property
    def rescheduled(self) -> Mapping[int, int]:
        """The arrivals that were rescheduled and wait, and when they are due."""
        return self._moved

    @property
    def has_ids(self) -> bool:
        """Whether any arrival that waits has an id."""
        return bool(self._ids)

    def id_of(self, number: int) -> bytes | None:
        """Return the id of an arrival that waits, if it has one."""
        return self._ids.get(number)

    def bits(self) -> BitView:
        """Return the bits of what waits, which are valid until the next change."""
        return self._bits.view()

    def count_between(self, first: int, end: int) -> int:
        """Return how many of the arrivals from `first` until before `end` wait."""
        return self._bits.count_between(first, end)

    def arrival_of(self, timer_id: bytes) -> int | None:
        """Return the arrival that waits with an id."""
        return self._of_id.get(timer_id)

    def arrive(self, arrivals: Sequence[Arrival]) -> list[int]:
        """Add the records of a committed batch, and return the arrivals that they replace or cancel."""
        replaced = []
        for number, (_, timer_id, only_cancels) in zip(self._bits.arrive(len(arrivals)), arrivals, strict=True):
            if timer_id is not None:
                former = self._of_id.get(timer_id)
                if former is not None:
                    self._end(former)
                    replaced.append(former)
                if not only_cancels:
                    self._name(number, timer_id)
            if only_cancels:
                self._bits.remove(number)
        return replaced

    def release(self, numbers: Iterable[int]) -> None:
        """Note arrivals whose records a committed entry has made visible.  All of them wait."""
        for number in numbers:
            was_waiting = self._end(number)
            assert was_waiting, f"arrival {number} is released, and did not wait"

    def cancel(self, numbers: Iterable[int]) -> Outcome:
        changed = over = unknown = 0
        for number in numbers:
            if self._end(number):
                changed += 1
            elif 0 <= number < self.end:
                over += 1
            else:
                unknown += 1
        return Outcome(changed, over, unknown)

    def cancel_ids(self, ids: Iterable[bytes]) -> Outcome:
        changed = unknown = 0
        for timer_id in ids:
            number = self._of_id.get(timer_id)
            if number is None:
                unknown += 1
            else:
                self._end(number)
                changed += 1
        return Outcome(changed, 0, unknown)

    def reschedule(self, dues: Mapping[int, int]) -> Outcome:
        """Let arrivals wait until other times, in milliseconds since the epoch."""
        changed = over = unknown = 0
        for number, due in dues.items():
            if self.waits(number):
                self._moved[number] = due
                changed += 1
            elif 0 <= number < self.end:
                over += 1
            else:
                unknown += 1
        return Outcome(changed, over, unknown)

    def reschedule_ids(self, dues: Mapping[bytes, int]) -> Outcome:
        known = {self._of_id[timer_id]: due for timer_id, due in dues.items() if timer_id in self._of_id}
        return self.reschedule(known)._replace(unknown=len(dues) - len(known))

    def restore_ids(self, ids: Iterable[tuple[int, bytes]]) -> None:
        """Add the ids of arrivals, in the order of their numbers, after the rest was decoded.  Some may be over."""
        for number, timer_id in ids:
            if self.waits(number):
                self._name(number, timer_id)

    def encode(self) -> bytes:
        """Return the state without the ids."""
        base, bits = self.first_waiting(), self._bits.encode()
        moved = sorted(self._moved.items())
        head = _HEAD.pack(VERSION, base, self.end, len(bits))
        return b"".join((head, bits, _COUNT.pack(len(moved)), *(_MOVED.pack(*one) for one in moved)))

    @classmethod
    def decode(cls, data: bytes) -> "WaitingSet":
        """Raise MalformedBits if `data` is no such state, or is of another version."""
        if len(data) < _HEAD.size:
            raise MalformedBits(f"{len(data)} bytes of a state of timers")
        version, base, end, size = _HEAD.unpack_from(data)
        if version != VERSION:
            raise MalformedBits(f"a state of timers of version {version}; this program knows {VERSION}")
        rest = _HEAD.size + size
        if len(data) < rest + _COUNT.size:
            raise MalformedBits(f"{len(data)} bytes of a state of timers, with {size} bytes of bits")
        found = cls(end)
        found._bits = WaitingBits.decode(data[_HEAD.size : rest], base, end)
        (count,) = _COUNT.unpack_from(data, rest)
        rest += _COUNT.size
        if len(data) - rest != count * _MOVED.size:
            raise MalformedBits(f"{len(data) - rest} bytes for {count} arrivals that were rescheduled")
        found._moved = dict(_MOVED.iter_unpack(data[rest:]))
        if not all(map(found.waits, found._moved)):
            raise MalformedBits("an arrival was rescheduled that does not wait")
        return found

    def _name(self, number: int, timer_id: bytes) -> None:
        self._of_id[timer_id] = number
        self._ids[number] = timer_id

    def _end(self, number: int) -> bool:
        """Return whether the arrival waited until now."""
        if not self._bits.remove(number):
            return False
        self._moved.pop(number, None)
        timer_id = self._ids.pop(number, None)
        if timer_id is not None:
            del self._of_id[timer_id]
        return True
