"""TimerHost: releases the records of the timer partitions that this broker leads, and restores what replicas need.

`DueHeap` decides when a partition releases records; this keeps what each partition needs for that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from tidemill.broker.clients.connection_memory import ConnectionMemory
from tidemill.broker.leadership.leadership import leadership_problem
from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.repeated_events import RepeatedEvents
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.broker.timers.clock_handover import ClockHandover
from tidemill.broker.timers.due_heap import DueHeap, DuePartition
from tidemill.broker.timers.index_files import IndexFiles
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.broker.timers.read_ahead import ReadAheadRoom
from tidemill.broker.timers.restoring import Restoring
from tidemill.broker.timers.tick_rounds import TickRounds
from tidemill.broker.timers.waiting_reader import WaitingLogs
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.model.timer_logs import arrivals_of, kept_of
from tidemill.model.topic import TopicId
from tidemill.model.topic_kind import KIND
from tidemill.shard.partition import Partition
from tidemill.shard.shard import Shard
from tidemill.storage.machine.shard_machine import MachineNumber
from tidemill.storage.machine.timer_machine import TimerMachine
from tidemill.storage.store import Store
from tidemill.telemetry.metrics import Metrics
from tidemill.timer.timer_partition import TimerPartition

LOG_START_MS: Final = 1_000  # between two looks at the segments of which nothing waits
ROLL_BYTES: Final = 1 << 20  # a segment of which nothing waits is closed from this size on, so that it can be removed

T = TypeVar("T")

_Key = tuple[Shard, int]


@dataclass(slots=True)
class _Replica:
    """What this broker does for its replica of a timer partition, whether it leads or not."""

    timers: TimerPartition
    files: IndexFiles
    restoring: Restoring | None = None
    log_start_at: int = 0  # monotonic ms of the last look at segments of which nothing waits

    def stop(self) -> None:
        if self.restoring is not None:
            self.restoring.stop()


class TimerBroker(Protocol):
    """The part of the broker that timers use."""

    machine: Machine
    cluster: Cluster
    metrics: Metrics
    store: Store
    memory: ConnectionMemory
    shard_table: ShardTable

    def storage_problem(self) -> str | None:
        """Return why appends are refused now; None if they are accepted."""
        ...

    def may_release(self) -> bool:
        """Return whether the disk has room for released records."""
        ...

    def read_failed(self, partition: Partition, error: Exception) -> int:
        """Take note of a read of records that has failed, and return the error code for it."""
        ...

    def missing_partition(self, topic: str, topic_id: bytes, number: int) -> int:
        """Return the error code for a partition that has no replica on this broker."""
        ...


class TimerHost:
    def __init__(self, broker: TimerBroker) -> None:
        self._broker = broker
        self._machine = broker.machine
        self._led: dict[_Key, LedTimers] = {}
        self._room = ReadAheadRoom()
        self._replicas: dict[_Key, _Replica] = {}
        self._shards: dict[Shard, None] = {}  # those of timer topics
        self._rounds = TickRounds[_Key](
            lambda: [(shard, number) for shard in self._shards for number in shard.released]
        )
        self._due = DueHeap(broker.machine, evaluated=self._evaluated)
        self._file_failures = RepeatedEvents(broker.machine.clock)
        self._clock_handover = ClockHandover(broker.machine.clock, broker.machine.events)

    def led(self, partition: Partition) -> LedTimers | None:
        """Return the timers of a partition that this broker serves."""
        shard = partition.shard
        return self._led.get((shard, partition.number)) if isinstance(shard, Shard) else None

    def served(self, topic_id: TopicId, number: int) -> LedTimers:
        """Return the timers of a partition that this broker serves.  Raise KafkaError otherwise."""
        table = self._broker.shard_table
        name = table.name_of(topic_id)
        partition = None if name is None else table.partition(name, number)
        if partition is None:
            code = self._broker.missing_partition("", topic_id, number)
            raise KafkaError(code, f"partition {number} of {name or topic_id.hex()} is not served here")
        if partition.arrivals is None:
            raise KafkaError(
                errors.INVALID_REQUEST,
                f"topic {name!r} is not of kind timer, so none of its records wait: create one with {KIND}=timer",
            )
        led = self.led(partition)
        if led is None or not partition.shard.accepts_writes:
            raise KafkaError(
                leadership_problem(partition, -1) or errors.NOT_LEADER_OR_FOLLOWER,
                f"partition {number} of {name} is not served here",
            )
        if not led.timers.is_restored:
            raise KafkaError(
                errors.LEADER_NOT_AVAILABLE, f"what waits in partition {number} of {name} is being read; ask again"
            )
        return led

    @property
    def memory(self) -> ConnectionMemory:
        return self._broker.memory

    def monotonic_ms(self) -> int:
        return self._machine.clock.monotonic_ms()

    def in_thread(self, job: Callable[[], T], done: Callable[[T | KafkaError], None]) -> None:
        """Run a job that reads what waits, and pass its result, or why it failed or was refused, to `done`."""

        def run() -> T | KafkaError:
            try:
                return job()
            except KafkaError as refused:
                return refused
            except (OSError, LookupError) as error:
                return KafkaError(errors.KAFKA_STORAGE_ERROR, f"records that wait could not be read: {error}")

        self._machine.read_jobs.submit(run, done, self._machine.failed)

    # Leadership.

    def serving_changed(self, shard: Shard) -> None:
        if not shard.has_timers:
            return
        self._notice(shard)
        for number, partition in shard.released.items():
            former = self._led.pop((shard, number), None)
            if former is not None:
                former.stop()
                self._due.drop(former)
            if shard.is_serving:
                led = self._led[shard, number] = LedTimers(
                    partition,
                    self._replica(shard, number).files,
                    self._machine,
                    self._broker.metrics.by_timer_topic.of(partition.topic),
                    self._room,
                    may_arrive=lambda: self._broker.storage_problem() is None,
                    may_write=self._broker.may_release,
                    ready=self._due.wake,
                    read_failed=self._broker.read_failed,
                )
                self._due.wake(led)

    def _changed_of(self, shard: Shard) -> Callable[[int], None]:
        def changed(number: int) -> None:
            self._rounds.moved((shard, number), self._machine.clock.monotonic_ms())
            led = self._led.get((shard, number))
            if led is not None:
                led.changed()
                self._due.wake(led)

        return changed

    # What every replica does.

    def tick(self) -> None:
        now_ms = self._machine.clock.monotonic_ms()
        self._notice_shards()
        for shard, number in self._rounds.tick(now_ms):
            if shard in self._shards:
                self._look(shard, number, now_ms)
        self._due.fire()
        self._clock_handover.tick({shard for shard, _ in self._led}, self._broker.cluster.clocks.offsets())

    def _notice_shards(self) -> None:
        """Begin with shards that have been opened, and stop with those that have been closed."""
        opened = self._broker.shard_table.shards
        for shard in [it for it in self._shards if opened.get(it.shard_id) is not it]:
            del self._shards[shard]
            for key in [it for it in self._replicas if it[0] is shard]:
                self._replicas.pop(key).stop()
        for shard in opened.values():
            if shard.has_timers and shard not in self._shards:
                self._notice(shard)

    def _notice(self, shard: Shard) -> None:
        """Look at all partitions of a shard in the next tick, and at each that changes from now on."""
        self._shards[shard] = None
        _machine_of(shard).changed = self._changed_of(shard)
        for number in shard.released:
            self._rounds.moved((shard, number), self._machine.clock.monotonic_ms())

    def _look(self, shard: Shard, number: int, now_ms: int) -> None:
        """Do what is to be done for a partition from time to time."""
        led = self._led.get((shard, number))
        if shard.replica.installing is None and shard.log.damage is None:
            self._maintain(shard, number)
            replica = self._replica(shard, number)
            if not replica.timers.is_restored:
                self._rounds.moved((shard, number), now_ms)
            if led is not None and now_ms - replica.log_start_at >= LOG_START_MS:
                replica.log_start_at = now_ms
                self._move_log_starts(shard, led.partition, led.timers)
        if led is None:
            return
        led.tick(now_ms)
        waiting = led.timers.waiting
        if led.needs_occurrences or (waiting.count and not self._due.is_armed(led)):
            self._rounds.moved((shard, number), now_ms)  # something keeps it from going on, and may end at any time
            if led.needs_occurrences or led.next_due is not None:
                self._due.wake(led)

    def _evaluated(self, led: DuePartition) -> None:
        partition = led.partition
        shard = partition.shard
        assert isinstance(shard, Shard), "this broker leads the partition"
        self._rounds.moved((shard, partition.number), self._machine.clock.monotonic_ms())

    def _replica(self, shard: Shard, number: int) -> _Replica:
        """Return what this broker does for a replica; begin again if an install has replaced its state."""
        timers = _machine_of(shard).partitions[number]
        known = self._replicas.get((shard, number))
        if known is not None and known.timers is timers:
            return known
        if known is not None:
            known.stop()
        logs = WaitingLogs(shard.partitions[arrivals_of(number)].log, shard.partitions[kept_of(number)].log)
        files = IndexFiles(timers, logs, self._broker.store.disk, self._machine, self._file_failures)
        found = self._replicas[shard, number] = _Replica(timers, files)
        return found

    def _maintain(self, shard: Shard, number: int) -> None:
        replica = self._replica(shard, number)
        timers, logs = replica.timers, replica.files.logs
        timers.index.arrivals_start, timers.index.kept_start = logs.arrivals.log_start, logs.kept.log_start
        for hidden in (arrivals_of(number), kept_of(number)):
            shard.waiting_trims.tick(hidden)
        if timers.is_restored:
            replica.files.remove_unknown()
            replica.files.flush_if_large()
            replica.files.merge()
        if replica.restoring is not None or (timers.is_restored and not timers.index.missing()):
            return

        def ended(problem: OSError | None) -> None:
            replica.restoring = None
            led = self._led.get((shard, number))
            if problem is not None:  # the next tick tries again
                self._broker.read_failed(shard.partitions[number], problem)
            elif led is not None:
                self._due.wake(led)

        replica.restoring = Restoring(
            timers, logs, replica.files, self._machine.read_jobs, ended=ended, failed=self._machine.failed
        )
        replica.restoring.begin()

    def _move_log_starts(self, shard: Shard, partition: Partition, timers: TimerPartition) -> None:
        """Remove segments of which nothing waits, on all replicas."""
        if not timers.is_restored or not shard.accepts_writes:
            return
        assert partition.arrivals is not None, "not a timer partition"
        wall_ms = self._machine.clock.wall_ms()
        waiting = timers.waiting
        for hidden, first in (
            (partition.arrivals, timers.first_needed(partition.arrivals.log.log_start)),
            (partition.kept, timers.kept.first_needed(waiting.waits)),
        ):
            assert hidden is not None, "not a timer partition"
            log = hidden.log
            if first == log.end_offset and log.segments and log.segments[-1].size >= ROLL_BYTES:
                log.roll()
            if log.frees(first, shard.waiting_trims.start(hidden.number)):
                shard.move_log_start(hidden.number, first, wall_ms)


def _machine_of(shard: Shard) -> TimerMachine:
    machine = shard.log.machines.by_number[MachineNumber.TIMERS]
    assert isinstance(machine, TimerMachine)
    return machine
