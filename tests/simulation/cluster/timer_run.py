"""A simulated cluster with a timer topic whose records are produced, cancelled and released while faults strike."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.cluster.brief_knobs import brief
from tidemill.broker.shards import ready_loop
from tidemill.broker.timers import draining, index_files, led_timers, timer_host
from tidemill.broker.timers.led_timers import LedTimers
from tidemill.shard.arrivals import timers_of
from tidemill.shard.partition import Partition
from tidemill.simulation.clients.schedule_producer import LONG_IDS, SHORT_IDS, ScheduleProducer
from tidemill.simulation.clients.timer_administrator import TimerAdministrator
from tidemill.simulation.clients.timer_history import TimerHistory
from tidemill.simulation.clients.timer_producer import HOUR_MS, RefusedProducer, TimerProducer
from tidemill.simulation.clients.timer_reader import TimerReader
from tidemill.simulation.cluster.broker_machine import TICK_S, BrokerMachine
from tidemill.simulation.cluster.cluster import TOPIC, ClusterRun
from tidemill.simulation.cluster.cluster_faults import WRONG_MS_MAX
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.cluster.timer_check import TimerCheck, held_by, in_flight, observed_read, state_of
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.event_loop import US
from tidemill.simulation.machine.machine import seconds
from tidemill.timer import release_clock, timer_partition
from tidemill.timer.due_index import DueIndex, Sizes
from tidemill.timer.due_row import ROW_BYTES
from tidemill.timer.due_time import UNLIMITED
from tidemill.timer.waiting_set import NOT_YET_KNOWN

HEALTHY_S: Final = 2.0  # after the last fault, until which everything that is due must be released in time
LATE_MS_MAX: Final = 100  # from the time at which the leader may release a record until it is proposed
BUSY_MS_MAX: Final = 4_000  # while the leader waits for its disk, or has enough batches in flight
LOOK_S: Final = 0.02
LEAPT_MS: Final = 50
LOOKING_S: Final = 1.5
DECIDE_S: Final = 0.15  # mean time between two decisions of a client
SCHEDULE_S: Final = 1.0  # mean time between two batches of schedules
STEP_S: Final = 0.5  # mean time between steps of wall clocks
SETTLED_S: Final = 2.5  # after the leap; each second, leaders look for segments of which nothing waits
CHECKED_MS: Final = 1_000  # longer than the checks at the end of a run take
FAR_MS: Final = 20 * HOUR_MS  # `tidemill.max.delay.ms` in half of the runs; at the end, such records still wait
LEAP_MS: Final = 2 * HOUR_MS  # more than any clock was wrong by: all other records are due after it
RECORDS_MAX: Final = 20  # of a batch, so that many batches are in flight
ROLL_BYTES: Final = 4 << 10
SIZES: Final = Sizes(
    run_rows=16,
    chunk_rows=4,
    refill_rows=8,
    window_rows=24,
    runs_max=4,
    merge_runs=2,
    inline_rows=4,
    reschedule_rows=4,
)
FLUSH_ROWS: Final = 12
LOG_START_MS: Final = 250  # segments are small, so there are many to remove
READING_MS_MAX: Final = 1_000  # so that a leader does not know the time soon after it is isolated
CHECKPOINT_MS: Final = 700  # segments of which nothing waits are removed after a checkpoint
SPARE_BYTES: Final = 8 << 10
KEPT_BYTES_MAX: Final = 2 << 10
SOON_MS: Final = 500
BATCHES_WHEN_HEALTHY: Final = 8
SCHEDULES_WHEN_HEALTHY: Final = 2  # batches
PAUSE_WHEN_HEALTHY_S: Final = 0.15
BRIEF_S: Final = 1
BRIEF_AT: Final = 100_000  # the first seed of brief runs


class TimerRun(ClusterRun):
    """
    Checks that records are released once, unchanged, in order, never early, and in time when the cluster is healthy;
    that all replicas know the same of what waits; and that segments of which nothing waits go away.  If the run has
    schedules, records recur as those demand.
    """

    def __init__(
        self,
        seed: int,
        knobs: ClusterKnobs,
        *,
        wrong_clocks: int,
        first_wrong: int = 1,
        replicas: int,
        has_schedules: bool,
        decide_s: float = DECIDE_S,
        selects_later: bool = False,
    ) -> None:
        """
        The wall clocks of up to `wrong_clocks` brokers step, from the broker with the id `first_wrong` on.  The topic
        has up to `replicas` replicas.  `decide_s` is the mean time between two decisions of a client until the faults
        end.  `selects_later`: most of them cancel what is due later.
        """
        self._has_schedules = has_schedules
        self._replication = min(knobs.brokers, replicas)
        self._decide_s = decide_s
        self._selects_later = selects_later
        self._wrong_clocks = wrong_clocks
        self._first_wrong = first_wrong
        self._clock_random = Random(seed)
        self._delay_ms_max = FAR_MS if seed % 2 else UNLIMITED
        self._watched: dict[int, _Watched] = {}  # by partition
        self._leapt_us: int | None = None
        self.looks = 0  # at leaders that had something to release, when the cluster was healthy
        self.timers = TimerCheck(TimerHistory(TOPIC))
        super().__init__(seed, knobs, (self.timers.machine_type(),))
        self.history = self.timers.history
        self.timers.begin(self.machines, self.timeline)
        for machine in self.machines:
            machine.after_turn = self._after_turn
        agree = self.check.agree
        self.check.agree = partial(self._agree, agree)  # type: ignore[method-assign]

    async def _prepare(self) -> None:
        knobs, history = self.knobs, self.timers.history
        self._client = self._new_client("admin")
        configs = {"tidemill.kind": "timer", "internal.segment.bytes": str(self.random.choice((4, 16, 64)) << 10)}
        if self._delay_ms_max != UNLIMITED:
            configs["tidemill.max.delay.ms"] = str(self._delay_ms_max)
        await self._client.create_topic(TOPIC, knobs.partitions, self._replication, configs)
        for number in range(knobs.partitions):
            reader = TimerReader(self._new_client(f"reader-{number}"), history, TOPIC, number)
            self._in_client(reader.run())
            for count in range(knobs.producers):
                self._produce(number, f"producer-{number}-{count}", self._paces(self._fork()))
            self._readers[TOPIC, number] = reader
        refused = RefusedProducer(
            self._new_client("refused"), history, TOPIC, self.random.randrange(knobs.partitions),
            delay_ms_max=self._delay_ms_max,
        )  # fmt: skip
        self._producing += 1
        pause_s = self._paces(self._fork())
        self._in_client(refused.run(lambda: 5 * pause_s(), lambda: self.faults.is_over), self._produced)
        for number in range(knobs.partitions if self.seed % 3 else 0):
            self._decide(number, f"decider-{number}", lambda: self.faults.is_over, self._decide_s)
        for number in range(knobs.partitions if self._has_schedules else 0):
            random = self._fork()
            self._produce_schedules(number, f"scheduler-{number}", lambda it=random: it.expovariate(1 / SCHEDULE_S))
        if knobs.administration_s:
            self._administer(self._client)
        if self._wrong_clocks:
            self._step_soon()

    def _produce(self, number: int, name: str, pause_s: Any, batches_max: int | None = None) -> None:
        producer = TimerProducer(
            self._new_client(name),
            self.timers.history,
            TOPIC,
            number,
            in_flight=self.knobs.in_flight,
            acks=self.knobs.acks,
            delay_ms_max=self._delay_ms_max,
            batches_max=batches_max,
            are_near=batches_max is not None,
        )
        self._producers.append(producer)
        self._producing += 1
        self._in_client(producer.run(pause_s), self._produced)

    def _produce_schedules(self, number: int, name: str, pause_s: Any, batches_max: int | None = None) -> None:
        producer = ScheduleProducer(
            self._new_client(name),
            self.timers.history,
            TOPIC,
            number,
            in_flight=self.knobs.in_flight,
            acks=self.knobs.acks,
            batches_max=batches_max,
            may_leap=self._wrong_clocks > self._replication // 2,
        )
        self._producers.append(producer)
        self._producing += 1
        self._in_client(producer.run(pause_s), self._produced)

    def _decide(self, number: int, name: str, is_over: Any, decide_s: float = DECIDE_S) -> None:
        """Let a client cancel and reschedule records."""
        ids = (*SHORT_IDS, *LONG_IDS) if self._has_schedules else ()
        client, history = self._new_client(name), self.timers.history
        administrator = TimerAdministrator(client, history, TOPIC, number, ids, selects_later=self._selects_later)
        random = self._fork()
        self._producing += 1
        self._in_client(administrator.run(lambda: random.expovariate(1 / decide_s), is_over), self._produced)

    def _end_schedules(self, number: int) -> None:
        ender = TimerAdministrator(self._new_client(f"ender-{number}"), self.timers.history, TOPIC, number)
        self._producing += 1
        self._in_client(ender.end(SHORT_IDS), self._produced)

    def _step_soon(self) -> None:
        """Step the wall clock of one of the brokers whose clocks are wrong, again and again until the faults end."""
        random = self._clock_random

        def step() -> None:
            if not self.faults.is_over:
                far, near = random.randrange(-WRONG_MS_MAX, WRONG_MS_MAX), random.randrange(-3_000, 3_000)
                skew_ms = random.choice((far, far, near, 0))
                wrong = self._first_wrong + random.randrange(self._wrong_clocks)
                self.timers.step(wrong, skew_ms * 1_000)
                self._step_soon()

        self.timeline.after(int(random.expovariate(1 / STEP_S) * US), step)

    async def _probe(self) -> None:
        """Let a healthy quorum release records, and look whether it does so in time."""
        healthy_from_us = self.timeline.now_us + seconds(HEALTHY_S)
        end_us = healthy_from_us + seconds(LOOKING_S)
        self.timeline.after(seconds(HEALTHY_S), self._look)
        for number in range(self.knobs.partitions):
            self._produce(number, f"probe-{number}", self._healthy_pace(), BATCHES_WHEN_HEALTHY)
            if self.seed % 3:
                self._decide(number, f"late-decider-{number}", lambda: self.timeline.now_us > end_us)
            if self._has_schedules:
                name = f"late-scheduler-{number}"
                self._produce_schedules(number, name, self._healthy_pace(), SCHEDULES_WHEN_HEALTHY)
        while self._producing or self.timeline.now_us < end_us:
            await self._client.back_off()  # type: ignore[union-attr]
        for number in range(self.knobs.partitions if self._has_schedules else 0):
            self._end_schedules(number)  # at once: each may try for seconds to reach a broker that is down
        while self._producing:
            await self._client.back_off()  # type: ignore[union-attr]
        self._is_probed = True

    def _healthy_pace(self) -> Any:
        random = self._fork()
        pauses = iter([HEALTHY_S])  # after the first batch
        return lambda: next(pauses, 0.0) or random.expovariate(1 / PAUSE_WHEN_HEALTHY_S)

    def _is_read(self) -> bool:
        """Clocks may be wrong still, so nothing need be visible yet."""
        return True

    # Checks during the run.

    def _after_turn(self, machine: BrokerMachine) -> None:
        self.check.check_after_turn(machine)
        if machine.broker is not None:
            self.timers.note_rates()
            self.timers.check_log_starts(machine)

    def _look(self) -> None:
        """Check that no leader leaves anything that it may release."""
        for machine in self.machines:
            broker = machine.broker
            if broker is None:
                continue
            for number, partition in broker.shard_table.topics.get(TOPIC, {}).items():
                led = broker.timers.led(partition)
                if led is not None and partition.shard.accepts_writes and led.timers.is_restored:
                    self._look_at(machine, number, led)
        self.timeline.after(seconds(LOOK_S), self._look)

    def _look_at(self, machine: BrokerMachine, number: int, led: LedTimers) -> None:
        assert machine.broker is not None, f"{machine.name} is up"
        limit, timers, now_us = led.partition.shard.release_limit, led.timers, self.timeline.now_us
        under_way = in_flight(timers) | held_by(timers)
        due = [
            arrival
            for arrival, due in self.timers.history.oracles[number].waiting.items()
            if limit is not None
            and (due <= limit or due == NOT_YET_KNOWN)  # which the leader has to compute
            and arrival not in under_way
        ]
        before = self._watched.get(number)
        watched = self._watched[number] = _Watched(
            (machine.name, led.partition.leader_epoch, self.timers.batches[number]),
            now_us,
            now_us,
            now_us,
            limit,
            now_us,
        )
        if before is not None:
            has_leapt = before.has_leapt_to(limit or 0, now_us)
            watched.aware_us = now_us + seconds(TICK_S) if has_leapt else before.aware_us
        if not due or not machine.broker.may_release() or before is None or before.progress != watched.progress:
            return
        self.looks += 1
        watched.since_us = before.since_us
        is_reading = led._is_reading or led._is_refilling or led._recurrences._busy or led._recurrences._is_computing
        replica = led.partition.shard.replica
        is_writing = replica.stable_index < replica.commit_index  # the others have committed what this disk lacks
        if not (is_reading or is_writing or led._in_flight >= led_timers.IN_FLIGHT_MAX):
            watched.idle_since_us = before.idle_since_us
        idle_since_us = max(watched.idle_since_us, watched.aware_us)
        idle_ms, waiting_ms = (now_us - idle_since_us) // 1_000, (now_us - watched.since_us) // 1_000
        if idle_ms > LATE_MS_MAX + led.partition.config.timer_linger_ms or waiting_ms > BUSY_MS_MAX:
            raise InvariantViolation(
                f"{machine.name} does not release {due[:5]} of partition {number}, which have been due for "
                f"{waiting_ms} ms; for {idle_ms} ms it has done nothing"
            )

    # Checks at the end.

    def _agree(self, agree: Any) -> bool:
        """
        Set all clocks right, let everything become visible that is due, then what is due within two hours, and check
        what has become of each record.
        """
        self.timers.set_clocks_right(0 if self._leapt_us is None else LEAP_MS * 1_000)
        if not agree() or not all(map(self._is_quiet, range(self.knobs.partitions))):
            return False
        for number in range(self.knobs.partitions):
            self.timers.history.check_partition(number, self._waiting_on_leader(number))
        if self._leapt_us is None:
            self._leapt_us = self.timeline.now_us
            return False
        return self.timeline.now_us >= self._leapt_us + seconds(SETTLED_S)

    def _is_quiet(self, number: int) -> bool:
        """
        Return whether a partition has released what is due, readers have seen it, and what is not needed is gone.
        Replicas have the same entries, so they must have the same state.
        """
        oracle = self.timers.history.oracles[number]
        latest_ms = min(machine.broker.clock.wall_ms() for machine in self.machines if machine.broker is not None)
        # What is due soon is waited for, too: it would come between this and the checks behind it.
        if any(due < latest_ms + CHECKED_MS or due == NOT_YET_KNOWN for due in oracle.waiting.values()):
            return False
        if self._readers[TOPIC, number].offset < len(oracle.visible):
            return False
        replicas = self._replicas(number)
        if not all(timers_of(it).is_restored for it in replicas) or not any(it.shard.is_serving for it in replicas):
            return False
        for partition in replicas:
            if (here := state_of(timers_of(partition))) != oracle.state():
                raise InvariantViolation(f"partition {number}: {here} on a replica; {oracle.state()} by the entries")
        # A follower that ends while it is restored may keep segments until the next log start.
        return not any(_has_unneeded_segment(it) for it in replicas if it.shard.is_serving)

    def _waiting_on_leader(self, number: int) -> list[int]:
        (leader,) = [it for it in self._replicas(number) if it.shard.is_serving]
        return [*timers_of(leader).waiting.numbers()]

    def _replicas(self, number: int) -> list[Partition]:
        found = []
        for machine in self.machines:
            assert machine.broker is not None, "the replicas agree"
            partition = machine.broker.shard_table.partition(TOPIC, number)
            found += [] if partition is None else [partition]
        return found


@dataclass(slots=True)
class _Watched:
    """How long a leader has had something to release."""

    progress: tuple[str, int, int]  # broker, leader epoch, and how many batches of the partition were proposed
    at_us: int
    since_us: int
    idle_since_us: int
    limit: int | None
    aware_us: int  # the tick at which the leader becomes aware of the last leap of the limit

    def has_leapt_to(self, limit: int, now_us: int) -> bool:
        """
        Return whether the limit has moved by more than the time that has passed: because clocks have stepped, or wrong
        ones are not heard any more.  Leaders become aware of that at the next tick.
        """
        return self.limit is None or limit - self.limit > LEAPT_MS + (now_us - self.at_us) // 1_000


def _has_unneeded_segment(partition: Partition) -> bool:
    """Return whether a log of a replica begins with a segment of which no byte is needed."""
    assert partition.arrivals is not None and partition.kept is not None, "a timer partition"
    timers = timers_of(partition)
    for log, first in (
        (partition.arrivals.log, timers.first_needed()),
        (partition.kept.log, timers.kept.first_needed(timers.waiting.waits)),
    ):
        if len(log.segments) > 1 and log.segments[1].base_offset <= first:
            return True
    return False


def timer_run(seed: int, *, has_schedules: bool = False) -> TimerRun:
    """Return a run with any faults."""
    return _run_with_any_faults(seed, lambda knobs: knobs, has_schedules=has_schedules)


def brief_timer_run(seed: int, *, has_schedules: bool = False) -> TimerRun:
    """Return a brief run with any faults, other ones than those of `timer_run`."""
    return _run_with_any_faults(BRIEF_AT + seed, partial(brief, duration_s=BRIEF_S), has_schedules=has_schedules)


def _run_with_any_faults(seed: int, adapt: Callable[[ClusterKnobs], ClusterKnobs], *, has_schedules: bool) -> TimerRun:
    random = Random(seed)
    drawn = replace(ClusterKnobs.draw(random), clock_jump=0.0, acks=-1, duration_s=random.choice((2, 4)))
    knobs = adapt(drawn)
    wrong = random.choice((0, 1, 1, knobs.brokers)) if knobs.brokers > 1 else random.choice((0, 1))
    return TimerRun(
        seed, knobs, wrong_clocks=wrong, replicas=random.choice((1, 2, 3, 3, 3, 3)), has_schedules=has_schedules
    )


def eventful_timer_run(seed: int, *, has_schedules: bool = False) -> TimerRun:
    """Return a short run of two or three brokers whose leaders change often, and whose processes end."""
    random = Random(seed)
    drawn = ClusterKnobs.draw(random, random.choice((2, 3, 3, 3))).without_faults()
    faults = replace(drawn, kill=0.3, pause=0.1, partition=0.2, leader_isolation=1.0, transfer_leadership=0.3)
    knobs = replace(faults, duration_s=2, partitions=1, producers=2, pause_s=0.05)
    return TimerRun(
        seed, knobs, wrong_clocks=random.choice((0, 1, 1, knobs.brokers)), replicas=3, has_schedules=has_schedules
    )


def contended_timer_run(seed: int, *, has_schedules: bool = False) -> TimerRun:
    """Return a run of two brokers that live on, lead again and again, and read slowly."""
    random = Random(seed)
    drawn = ClusterKnobs.draw(random, 2).without_faults()
    faults = replace(drawn, partition=0.8, leader_isolation=1.0, transfer_leadership=0.3, sync_us=20_000)
    options = replace(drawn.options, cache_bytes_max=0)
    knobs = replace(faults, duration_s=6, partitions=1, producers=2, pause_s=0.02, options=options)
    return TimerRun(seed, knobs, wrong_clocks=random.choice((0, 1)), replicas=2, has_schedules=has_schedules)


def isolated_timer_run(seed: int, *, has_schedules: bool = False) -> TimerRun:
    """
    Return a run of two brokers, of which the one whose clock is wrong leads most of the time, and is isolated again and
    again.  Few records are due, so that it still has something to release when it has not heard the other for a while.
    """
    drawn = ClusterKnobs.draw(Random(seed), 2).without_faults()
    knobs = replace(drawn, partition=0.8, leader_isolation=1.0, duration_s=6, partitions=1, producers=1, pause_s=0.1)
    return TimerRun(seed, knobs, wrong_clocks=1, first_wrong=2, replicas=2, has_schedules=has_schedules)


def moved_timer_run(seed: int, *, has_schedules: bool = False) -> TimerRun:
    """Return a run of three brokers with slow disks, whose records are moved again and again while they are read."""
    drawn = ClusterKnobs.draw(Random(seed), 3).without_faults()
    options = replace(drawn.options, cache_bytes_max=0)
    faults = replace(drawn, slow_disk=0.7, sync_us=5_000, delay_us=100)
    knobs = replace(faults, duration_s=6, partitions=1, producers=1, pause_s=0.1, options=options)
    return TimerRun(seed, knobs, wrong_clocks=0, replicas=3, has_schedules=has_schedules, decide_s=0.02)


def selecting_timer_run(seed: int, *, has_schedules: bool = True) -> TimerRun:
    """
    Return a run of three brokers with slow disks, in which everything that is due later is cancelled again and again.
    """
    drawn = ClusterKnobs.draw(Random(seed), 3).without_faults()
    faults = replace(drawn, slow_disk=0.7, sync_us=5_000, transfer_leadership=0.3)
    knobs = replace(faults, duration_s=4, partitions=1, producers=1, pause_s=0.1)
    return TimerRun(
        seed, knobs, wrong_clocks=0, replicas=3, has_schedules=has_schedules, decide_s=0.02, selects_later=True
    )


@contextmanager
def with_timer_settings() -> Iterator[None]:
    """Let brokers release few records at a time, keep few rows in memory, and close segments early."""
    with (
        patch.object(timer_partition, "DueIndex", partial(DueIndex, sizes=SIZES)),
        patch.object(index_files, "FLUSH_BYTES", FLUSH_ROWS * ROW_BYTES),
        patch.object(ready_loop, "CHECKPOINT_MS", CHECKPOINT_MS),
        patch.object(release_clock, "READING_MS_MAX", READING_MS_MAX),
        patch.object(draining, "SPARE_BYTES", SPARE_BYTES),
        patch.object(draining, "BATCH_BYTES_MAX", KEPT_BYTES_MAX),
        patch.object(draining, "SOON_MS", SOON_MS),
        patch.object(led_timers, "RECORDS_MAX", RECORDS_MAX),
        patch.object(timer_host, "ROLL_BYTES", ROLL_BYTES),
        patch.object(timer_host, "LOG_START_MS", LOG_START_MS),
        patch.object(LedTimers, "_read", observed_read(LedTimers._read)),
    ):
        yield
