"""The invariants of a timer topic in a simulated cluster, checked when brokers append and commit entries.

    append on a leader ─▶ never early, in order, digits as sent, no arrival without a release clock
    commit anywhere    ─▶ the oracle, once for each entry; what waits on the replica is what waits by the oracle

The checks at the end of a run, and those of time, are in the run itself.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from tidemill.batches.batch import BatchHeader, read_header
from tidemill.batches.records import Record, read_records
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.timer_logs import ARRIVALS, is_hidden, released_of
from tidemill.raft.entry import BATCH, Entry
from tidemill.shard.shard import Shard
from tidemill.simulation.clients.history import name_of
from tidemill.simulation.clients.schedule_oracle import schedule_of
from tidemill.simulation.clients.timer_history import TimerHistory
from tidemill.simulation.clients.timer_oracle import ArrivedTimer
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.event_loop import Timeline
from tidemill.simulation.machine.machine import BEGIN_MS
from tidemill.storage.machine.shard_machine import MachineNumber, MachineType
from tidemill.storage.machine.timer_machine import TimerMachine, timers
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.timer.due_row import DueRow
from tidemill.timer.due_time import DELIVER_AT
from tidemill.timer.release_clock import AHEAD_MS_MAX
from tidemill.timer.timer_changes import Arrived, Decided, Released
from tidemill.timer.timer_command import Cancel, CancelIds, Decision, Reschedule, RescheduleIds, decode_command
from tidemill.timer.timer_headers import hash_of
from tidemill.timer.timer_partition import TimerPartition
from tidemill.timer.waiting_set import NOT_YET_KNOWN

COMPARED_EVERY: Final = 8  # entries, because a comparison looks at everything that waits
_ARRIVAL_AT: Final = -1  # the header with the arrival number is the last


class _Arrivals(NamedTuple):
    base: int
    timers: list[ArrivedTimer]


class _Releases(NamedTuple):
    base_offset: int
    arrivals: list[int]
    append_time: int


class _Moved(NamedTuple):
    base_offset: int
    arrivals: list[int]


class _Decisions(NamedTuple):
    decisions: tuple[Decision, ...]
    append_time: int
    latest_ms: int  # the latest time that the leader may have taken for the present


_Parsed = _Arrivals | _Releases | _Moved | _Decisions
_ShardKey = tuple[bytes, int]  # topic id and first partition
_Read = Callable[[LedTimers, Sequence[DueRow]], None]


class ObservedTimerMachine(TimerMachine):
    """The state machine of timers, which also tells a `TimerCheck` what is appended and committed."""

    def __init__(self, check: "TimerCheck", partitions: Mapping[int, PartitionLog]) -> None:
        super().__init__(partitions)
        self.check = check
        self.logs = partitions
        first = min(partitions)
        self.key: _ShardKey = (partitions[first].topic_id, first)

    def appended(self, entry: Entry, header: BatchHeader | None, commit_index: int) -> None:
        super().appended(entry, header, commit_index)
        self.check.appended(self, entry)

    def committed(self, entry: Entry) -> None:
        super().committed(entry)
        self.check.committed(self, entry)


class MachineClock:
    """What the wall clock of a machine has shown: its largest error, and the fastest rate of its processes."""

    def __init__(self) -> None:
        self.is_right = True
        self.skew_us_max = 0
        self.rate_max = 0.0

    def latest_ms(self, now_us: int) -> int:
        """Return the latest time that it may show, or that may be known of it, in ms since the epoch."""
        return BEGIN_MS + (int(now_us * self.rate_max) + self.skew_us_max) // 1_000


class TimerCheck:
    def __init__(self, history: TimerHistory) -> None:
        self.history = history
        self.machines: list[BrokerMachine] = []
        self._timeline = Timeline()
        self.clocks: dict[int, MachineClock] = {}  # by broker id
        self.compared = 0  # states of replicas that were compared
        self.batches: Counter[int] = Counter()  # of released records that were proposed, by partition
        self.releases = 0  # records in them
        self._entries: dict[tuple[_ShardKey, int, int], _Parsed] = {}  # (shard, log index, term) → what it says
        self._applied: dict[_ShardKey, int] = {}  # the last log index that the oracle knows
        self._states: dict[tuple[_ShardKey, int, int], tuple[object, ...]] = {}  # (shard, partition, log index) → state
        self._latest_bound: dict[_ShardKey, int] = {}

    def machine_type(self) -> MachineType:
        return replace(timers(), make=partial(ObservedTimerMachine, self))

    def begin(self, machines: list[BrokerMachine], timeline: Timeline) -> None:
        self.machines = machines
        self._timeline = timeline
        self.clocks = {number: MachineClock() for number in range(1, len(machines) + 1)}

    # Clocks.

    def note_rates(self) -> None:
        for number, machine in enumerate(self.machines, 1):
            if machine.loop is not None:
                clock = self.clocks[number]
                clock.rate_max = max(clock.rate_max, machine.loop.rate)

    def step(self, number: int, skew_us: int) -> None:
        """Set the wall clock of a machine."""
        clock = self.clocks[number]
        clock.is_right = False
        clock.skew_us_max = max(clock.skew_us_max, skew_us)
        self.machines[number - 1].wall.skew_us = skew_us

    def set_clocks_right(self, leap_us: int) -> None:
        """Let all clocks show the present, after time has leapt by `leap_us`, as if nothing had happened meanwhile."""
        for machine, clock in zip(self.machines, self.clocks.values(), strict=True):
            machine.wall.skew_us = leap_us
            clock.skew_us_max = max(clock.skew_us_max, leap_us)

    def latest_ms(self, voters: tuple[ReplicaKey, ...]) -> int:
        """
        Return the latest time that a leader may take for the present: that of the latest right clock of the voters, or
        of any clock if more than half of them have been wrong.
        """
        self.note_rates()
        clocks = [self.clocks[int(voter.broker_id)] for voter in voters]
        right = [clock for clock in clocks if clock.is_right]
        counted = right if len(clocks) - len(right) <= len(clocks) // 2 else [*self.clocks.values()]
        return max(clock.latest_ms(self._timeline.now_us) for clock in counted)

    # Entries.

    def appended(self, machine: ObservedTimerMachine, entry: Entry) -> None:
        key = (machine.key, entry.index, entry.term)
        if key in self._entries:
            return  # a follower, or a replica that starts again
        shard = self._shard_of(machine)
        if shard is None:
            raise InvariantViolation(f"an entry of {machine.key} was appended first by a broker that is not up")
        latest_ms = self.latest_ms(shard.replica.voters)
        parsed = self._entries[key] = _parsed(entry, machine.key[0], latest_ms)
        if isinstance(parsed, _Arrivals):
            self._check_arrivals(machine.key, shard, parsed, latest_ms)
        elif isinstance(parsed, _Releases):
            self.batches[entry.partition] += 1
            # A leader that was replaced knows less than the oracle, and its proposal cannot commit.
            is_newest = shard.log.commit_index >= self._applied.get(machine.key, 0)
            timers = None if is_newest else machine.partitions[entry.partition]
            self._check_releases(timers, entry.partition, parsed, latest_ms)

    def _shard_of(self, machine: ObservedTimerMachine) -> Shard | None:
        """Return the shard of a state machine, or None if its broker is not up."""
        for broker in (it.broker for it in self.machines):
            for shard in () if broker is None else broker.shard_table.shards.values():
                if shard.log.machines.by_number.get(MachineNumber.TIMERS) is machine:
                    return shard
        return None

    def _check_arrivals(self, key: _ShardKey, shard: Shard, found: _Arrivals, latest_ms: int) -> None:
        if shard.release_limit is None:
            raise InvariantViolation(f"arrival {found.base} was appended while the leader does not know the time")
        bound = self._latest_bound[key] = max(self._latest_bound.get(key, 0), latest_ms + AHEAD_MS_MAX)
        for number, arrived in enumerate(found.timers, found.base):
            if arrived.value in self.history.refused:
                raise InvariantViolation(f"arrival {number}, {name_of(arrived.value)}, has headers that are not valid")
            if arrived.stamp_ms > bound:
                raise InvariantViolation(f"arrival {number} is stamped {arrived.stamp_ms - bound} ms too late")
            wanted = self.history.timers[arrived.value].due_ms(arrived.stamp_ms)
            if arrived.due_ms != wanted:
                raise InvariantViolation(f"arrival {number} is due at {arrived.due_ms}; it was sent with {wanted}")

    def _check_releases(self, timers: TimerPartition | None, number: int, found: _Releases, latest_ms: int) -> None:
        """
        Check that nothing is early, and the order within a batch; by what `timers` knows instead of the oracle, if
        given.
        """
        oracle = self.history.oracles[number]
        arrivals = oracle.arrivals
        self.releases += len(found.arrivals)
        keys = []
        for arrival in found.arrivals:
            due = arrivals[arrival].due_ms
            due = oracle.waiting.get(arrival, due) if timers is None else timers.waiting.due_ms(arrival, due)
            if due > latest_ms:
                raise InvariantViolation(f"arrival {arrival} is released {due - latest_ms} ms early")
            keys.append((due, arrival))
        if keys != sorted(set(keys)):
            raise InvariantViolation(f"a batch has the order {keys}")

    def committed(self, machine: ObservedTimerMachine, entry: Entry) -> None:
        parsed = self._entries[machine.key, entry.index, entry.term]
        if entry.index > self._applied.get(machine.key, 0):
            self._applied[machine.key] = entry.index
            self._apply(entry, parsed)
        if entry.index == self._applied[machine.key]:
            shard = self._shard_of(machine)
            for number in machine.partitions if shard is not None and shard.is_serving else ():
                oracle = self.history.oracles[number]
                oracle.changes_led = oracle.changes
        if entry.index % COMPARED_EVERY == 0:
            for number, timers in machine.partitions.items():
                self._compare(machine.key, number, entry.index, timers)
        if isinstance(parsed, _Releases):
            for arrival in parsed.arrivals:
                self._check_over(machine.partitions[entry.partition], arrival)

    def _apply(self, entry: Entry, parsed: _Parsed) -> None:
        if isinstance(parsed, _Arrivals):
            self.history.oracles[released_of(entry.partition)].arrive(*parsed)
        elif isinstance(parsed, _Releases):
            self.history.oracles[entry.partition].release(*parsed)
        elif isinstance(parsed, _Moved):
            self.history.oracles[released_of(entry.partition)].keep(*parsed)
        else:
            for decision in parsed.decisions:
                self.history.oracles[decision.partition].decide(decision, parsed.append_time, parsed.latest_ms)

    def _check_over(self, timers: TimerPartition, arrival: int) -> None:
        recurrence = timers.waiting.recurring.get(arrival)
        if timers.is_restored and timers.waiting.waits(arrival) and recurrence is None:
            raise InvariantViolation(f"arrival {arrival} waits on a replica that has released it")
        if timers.is_restored and recurrence is not None and recurrence.next_ms != NOT_YET_KNOWN:
            raise InvariantViolation(f"arrival {arrival} was released by a replica, and waits for {recurrence.next_ms}")

    def _compare(self, key: _ShardKey, number: int, index: int, timers: TimerPartition) -> None:
        """Compare what waits on a replica with that of the oracle, or of the first replica, at the same entry."""
        if not timers.is_restored:
            return  # changes are deferred
        here = state_of(timers)
        if index == self._applied[key]:
            self._states.setdefault((key, number, index), self.history.oracles[number].state())
        first = self._states.setdefault((key, number, index), here)
        self.compared += 1
        if here != first:
            raise InvariantViolation(
                f"partition {number}, entry {index}: what waits differs from that of another replica, or from the "
                f"entries: {_difference(here, first)}"
            )

    # Releases of leaders.

    def taken(self, led: LedTimers, rows: Sequence[DueRow]) -> None:
        """Check that a leader releases the first of what waits, by due time and arrival number."""
        timers, number = led.timers, led.partition.number
        arrivals, waiting = self.history.oracles[number].arrivals, timers.waiting
        under_way, held = in_flight(timers), held_by(timers)
        found = [(row.due_ms, row.arrival) for row in rows]
        taken = {arrival for _, arrival in found}  # what is skipped may be taken again, if it was moved back
        candidates = sorted(
            (waiting.due_ms(arrival, arrivals[arrival].due_ms), arrival)
            for arrival in waiting.numbers()
            if arrival not in under_way and arrival not in held
            if arrival in taken or not led.skips(arrival)
        )
        if found != candidates[: len(found)]:
            raise InvariantViolation(f"a leader releases {found}; what waits begins with {candidates[: len(found)]}")
        limit = led.partition.shard.release_limit
        if found and (limit is None or found[-1][0] > limit):
            raise InvariantViolation(f"a leader releases {found}, beyond its limit {limit}")

    def check_log_starts(self, machine: BrokerMachine) -> None:
        """Check that no replica has removed what waits."""
        assert machine.broker is not None, f"{machine.name} is up"
        for shard in machine.broker.shard_table.shards.values():
            if not shard.has_timers:
                continue
            for number, partition in shard.released.items():
                assert partition.arrivals is not None and partition.kept is not None, "a timer partition"
                starts = partition.arrivals.log_start, partition.kept.log_start
                if lost := self.history.oracles[number].lost_by(*starts):
                    raise InvariantViolation(f"{machine.name}: the logs of partition {number} have lost {lost[:5]}")


def in_flight(timers: TimerPartition) -> set[int]:
    """Return the arrivals whose release is appended and not committed."""
    return {arrival for _, it in timers._pending if isinstance(it, Released) for arrival in it.arrivals}


def held_by(timers: TimerPartition) -> set[int]:
    """
    Return the arrivals that an uncommitted change names, by their numbers or by the ids with which they wait.  What the
    replica itself takes for held is not asked: if it held a record for ever, that would not be found.
    """
    named: set[int] = set()
    ids: set[bytes] = set()
    for _, change in timers._pending:
        if isinstance(change, Arrived):
            ids.update(it.timer_id for it in change.timers)
        elif isinstance(change, Decided):
            decision = change.decision
            if isinstance(decision, Cancel):
                named.update(decision.arrivals)
            elif isinstance(decision, CancelIds):
                ids.update(decision.ids)
            elif isinstance(decision, Reschedule):
                named.update(decision.dues)
            elif isinstance(decision, RescheduleIds):
                ids.update(decision.dues)
            else:
                named.add(decision.arrival)
    waiting = timers.waiting._of_id
    return named | {waiting[it] for it in ids if it in waiting}


def state_of(timers: TimerPartition) -> tuple[object, ...]:
    """Return the state of a replica, in the form of `TimerOracle.state`."""
    waiting = timers.waiting
    moved = dict(sorted(waiting._moved.items()))
    schedules = dict(sorted(waiting.recurring.items()))
    return waiting.end, [*waiting.numbers()], moved, dict(sorted(waiting._of_id.items())), schedules


def observed_read(read: _Read) -> _Read:
    """Return `LedTimers._read`, which reads what is to be released now, with a check of its argument."""

    def checked(self: LedTimers, rows: Sequence[DueRow]) -> None:
        machine = self.partition.shard.log.machines.by_number[MachineNumber.TIMERS]
        assert isinstance(machine, ObservedTimerMachine), "timers are observed"
        machine.check.taken(self, rows)
        read(self, rows)

    return checked


def _parsed(entry: Entry, topic_id: bytes, latest_ms: int) -> _Parsed:
    assert entry.payload is not None, f"{entry} has no bytes"
    if entry.kind != BATCH:
        return _Decisions(tuple(decode_command(entry.payload)), entry.append_time, latest_ms)
    records = read_records(entry.payload)
    stamp_ms = read_header(entry.payload).max_timestamp
    if entry.partition & ARRIVALS:
        return _Arrivals(entry.base_offset, [_arrived(record, stamp_ms, topic_id) for record in records])
    arrivals = [int(record.headers[_ARRIVAL_AT][1] or b"") for record in records]
    if is_hidden(entry.partition):
        return _Moved(entry.base_offset, arrivals)
    return _Releases(entry.base_offset, arrivals, stamp_ms)


def _arrived(record: Record, stamp_ms: int, topic_id: bytes) -> ArrivedTimer:
    headers = dict(record.headers)
    due = headers.get(DELIVER_AT)
    timer_id = headers.get("tidemill-timer-id")
    return ArrivedTimer(
        record.value or b"",
        stamp_ms,
        stamp_ms if due is None else int(due),
        None if timer_id is None else hash_of(timer_id, topic_id),
        "tidemill-cancel" in headers,
        schedule_of(headers),
    )


def _difference(here: tuple[object, ...], first: tuple[object, ...]) -> str:
    return "; ".join(f"{one} instead of {other}" for one, other in zip(here, first, strict=True) if one != other)
