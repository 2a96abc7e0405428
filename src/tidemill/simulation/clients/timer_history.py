"""The history of a timer topic: what producers sent and what was acknowledged, refused and read by consumers.

A record is known by its value, which is unique.  Its arrival number is answered to the producer, and is a header of the
record when consumers see it.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tidemill.batches.records import Header, Record
from tidemill.peer.timer_resolve import UNBOUNDED, Request
from tidemill.simulation.clients.history import History, name_of
from tidemill.simulation.clients.schedule_oracle import OracleSchedule
from tidemill.simulation.clients.timer_oracle import TimerOracle
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.timer.due_time import DELAY, DELIVER_AT
from tidemill.timer.timer_headers import ARRIVAL, SET_BY_BROKER, TIMESTAMP
from tidemill.timer.waiting_set import NOT_YET_KNOWN


class SentTimer(NamedTuple):
    """A record as a producer sent it, and what its headers mean."""

    key: bytes | None
    headers: Sequence[Header]
    timestamp: int
    at_ms: int | None = None  # when it is due; None: `delay_ms` after its append time
    delay_ms: int = 0
    timer_id: bytes | None = None
    only_cancels: bool = False
    schedule: OracleSchedule | None = None  # it begins at `at_ms`; None: at its append time

    def due_ms(self, stamp_ms: int) -> int:
        """Return when the record is due first if its append time is `stamp_ms`."""
        begin_ms = stamp_ms + self.delay_ms if self.at_ms is None else self.at_ms
        return begin_ms if self.schedule is None else self.schedule.first(begin_ms)


class TimerHistory(History):
    def __init__(self, timer_topic: str) -> None:
        super().__init__()
        self.timers: dict[bytes, SentTimer] = {}  # by value
        self.refused: set[bytes] = set()  # values of batches that must never arrive
        self.refusals = 0
        self.oracles: defaultdict[int, TimerOracle] = defaultdict(TimerOracle)
        self.cancels: defaultdict[int, list[Request]] = defaultdict(list)  # all requests to cancel, by partition
        self._timer_topic = timer_topic
        self._visible: defaultdict[int, dict[int, int]] = defaultdict(dict)  # partition → offset → arrival

    def acknowledged(self, topic: str, number: int, base_offset: int, values: tuple[bytes, ...]) -> None:
        """Note what was acknowledged.  The offsets of a timer topic are arrival numbers."""
        if topic != self._timer_topic:
            super().acknowledged(topic, number, base_offset, values)
            return
        arrivals = self.oracles[number].arrivals
        for arrival, value in enumerate(values, base_offset):
            self.partition(topic, number).acknowledged[value] = arrival
            self.acknowledgements += 1
            self.digest.update(b"%d " % arrival + value)
            found = arrivals[arrival].value if arrival < len(arrivals) else b"nothing"
            if found != value:
                raise InvariantViolation(
                    f"{topic}-{number}: {name_of(value)} was acknowledged as arrival {arrival}, which is "
                    f"{name_of(found)}"
                )

    def became_visible(self, number: int, record: Record) -> None:
        """Check a record that a reader has received."""
        where = f"{self._timer_topic}-{number} at {record.offset}"
        name, digits = record.headers[-1] if record.headers else ("no header", None)
        if name != ARRIVAL or digits is None or not digits.isdigit():
            raise InvariantViolation(f"{where}: the last header is {name}={digits!r}")
        arrival, oracle = int(digits), self.oracles[number]
        self._visible[number][record.offset] = arrival
        released = oracle.visible[record.offset] if record.offset < len(oracle.visible) else None
        if released is None or released.arrival != arrival:
            raise InvariantViolation(f"{where}: arrival {arrival} is visible; {released} by the committed entries")
        arrived = oracle.arrivals[arrival]
        sent = self.timers.get(record.value or b"")
        if sent is None or record.value != arrived.value:
            raise InvariantViolation(f"{where}: arrival {arrival} has the value {record.value!r}")
        wanted = self._released(sent, arrival, released.due_ms)
        found = [*record.headers]
        if arrival in oracle.kept:  # the due time at which it was moved is its last header before those of the broker
            wanted = [it for it in wanted if it[0] != DELIVER_AT]
            found = [it for it in found if it[0] != DELIVER_AT]
        if (record.key, found) != (sent.key, wanted):
            raise InvariantViolation(
                f"{where}: arrival {arrival} has key {record.key!r} and headers {record.headers}; sent were "
                f"{sent.key!r} and {wanted}, before {sent.headers}"
            )

    def _released(self, sent: SentTimer, arrival: int, due_ms: int) -> list[Header]:
        """Return the headers that a record must have when it is visible."""
        kept = [
            (DELIVER_AT, b"%d" % due_ms) if name in (DELAY, DELIVER_AT) else (name, value)
            for name, value in sent.headers
            if name not in SET_BY_BROKER
        ]
        if sent.schedule is not None and sent.at_ms is None:
            kept.append((DELIVER_AT, b"%d" % due_ms))
        return [*kept, (TIMESTAMP, b"%d" % sent.timestamp), (ARRIVAL, b"%d" % arrival)]

    def check_read(self, topic: str, number: int) -> None:
        """Check a partition that was read to its end; of a timer topic, `check_partition` does that."""
        if topic != self._timer_topic:
            super().check_read(topic, number)

    def check_partition(self, number: int, waiting: Sequence[int]) -> None:
        """
        Check a timer partition in which nothing is under way: each record that was sent and not refused has arrived
        once, in the order of its producer, and has become visible, has ended, or is among those that wait on its
        leader.  What was cancelled was chosen by a request.  Schedules have missed no occurrence that they must not.
        """
        where, oracle = f"{self._timer_topic}-{number}", self.oracles[number]
        partition = self.partition(self._timer_topic, number)
        arrived = [timer.value for timer in oracle.arrivals]
        if len(set(arrived)) < len(arrived):
            raise InvariantViolation(f"{where}: a record has arrived twice")
        for producer_id, values in partition.sent.items():
            own = set(values)
            if values != [value for value in arrived if value in own]:
                raise InvariantViolation(f"{where}: what has arrived of producer {producer_id} is not what it sent")
        if len(arrived) != sum(map(len, partition.sent.values())):
            raise InvariantViolation(f"{where}: a record has arrived that was not sent")
        if self._visible[number] != {offset: it.arrival for offset, it in enumerate(oracle.visible)}:
            raise InvariantViolation(f"{where}: readers saw other records than the leader has released")
        if [*oracle.waiting] != [*waiting]:
            raise InvariantViolation(
                f"{where}: arrivals {[*waiting]} wait on the leader; {[*oracle.waiting]} by the committed entries"
            )
        oracle.check_schedules()
        for arrival, why in oracle.ended.items():
            if why == "cancelled" and not any(self._chooses(it, arrival) for it in self.cancels[number]):
                dues = sorted(oracle.dues[arrival])
                raise InvariantViolation(f"{where}: arrival {arrival}, due at {dues}, was cancelled by no request")
        states = (oracle.released.keys(), oracle.ended.keys(), oracle.waiting.keys())
        if sum(map(len, states)) != len(arrived) or len(set().union(*states)) != len(arrived):
            raise InvariantViolation(f"{where}: an arrival is not exactly one of visible, over and waiting")

    def _chooses(self, request: Request, arrival: int) -> bool:
        """Return whether a request chooses an arrival, at any of the times for which that has waited."""
        selection, oracle = request.selection, self.oracles[request.partition]
        if selection is None:
            return arrival in request.arrivals
        if selection.key not in (None, self.timers[oracle.arrivals[arrival].value].key):
            return False
        first, end = selection.due_from_ms, selection.due_before_ms
        return any(first <= due and (end == UNBOUNDED or due < end) for due in oracle.dues[arrival] - {NOT_YET_KNOWN})
