"""One run of a replay: steps of offset ranges, each written by Spark and then recorded in the state."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Self

from tidemill.columnar.offset_ranges import limited, waiting_count
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.one_topic import OneTopic
from tidemill.spark.pipelines.frame.positions import parse_position
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.small_batches import small_batches
from tidemill.spark.pipelines.frame.source_range import resolve
from tidemill.spark.pipelines.frame.table import Table
from tidemill.spark.pipelines.frame.topic_rows import topic_rows
from tidemill.spark.pipelines.replay import fitness, step_frame
from tidemill.spark.pipelines.replay.fitness import ReplayRefused
from tidemill.spark.pipelines.replay.options import TO_NOW, ReplayOptions
from tidemill.spark.pipelines.replay.record_times import RecordTimesAhead, times_ahead
from tidemill.spark.pipelines.replay.replay_state import ReplayState, Step
from tidemill.spark.pipelines.replay.schedule import UNSHIFTED, DueTimes, Rate, RecordTimes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Offsets = Mapping[TopicPartition, int]

STATE: Final = "replay"
_POLL_SECONDS: Final = 1.0  # how often to check an open range for new records
_STOP_SECONDS: Final = 0.2  # how often to check whether the run should stop
_STEP_SECONDS_MIN: Final = 0.5  # between the starts of steps with `speed`, because each step is a Spark job


class RecordsMissing(Exception):
    """The target topic has grown by fewer records than a step has written."""


class ReplayRun:
    """Replays from the position in the state to the end of the range, or until a stop is requested."""

    def __init__(self, job: Job[ReplayOptions]) -> None:
        self._job = job
        self._options = job.options
        self._opened = ExitStack()
        self.source = self._opened.enter_context(OneTopic(self._options.topic, job.kafka))
        self._target = self._opened.enter_context(OneTopic(self._options.to, _all_records(job.kafka)))
        self._times: dict[TopicPartition, RecordTimesAhead] = {}
        self._schedule: RecordTimes | None = None
        self._rate: Rate | None = None
        self._written = 0  # records written by this run
        self._is_complete = False
        try:
            self.state = self._first_state()
            fitness.check(job.options, self.state, self.ends(), self.source, self._target)
            self.selected(self.state.done)  # raises ValueError if Spark refuses the filter
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def replay(self) -> None:
        """Run the replay.  The state is durable after each step."""
        self._claim()
        self._save(self.state)
        left = None if self.state.end is None else waiting_count(self.state.done, self.state.end)
        self._job.progress.begin(f"replay {self._options.topic} to {self._options.to}", left)
        self._repeat_interrupted_step()
        if self._options.rate_records is not None:
            self._rate = Rate(self._options.rate_records, time.monotonic())
        while not self._job.stop_requested():
            ends = self.ends()
            self._is_complete = self.state.end is not None and waiting_count(self.state.done, ends) == 0
            if self._is_complete:
                break
            began_at = time.monotonic()
            due, wake_at = self._due(ends, began_at)
            if waiting_count(self.state.done, due):
                self._step(limited(self.state.done, due, self._step_records()), ends)
                wake_at = self._next_step_at(began_at)
            self._wait_until(wake_at)

    def _first_state(self) -> ReplayState:
        stored = self._job.state.read(STATE)
        topic_id = self.source.topic_id()
        if stored is not None:
            self._claim()  # raises StateRefused for the state of another replay
            state = ReplayState.from_json(stored)
            if state.topic_id != topic_id:
                raise ReplayRefused(
                    f"topic {self._options.topic!r} was deleted and created again since the first run with "
                    f"state={self._job.state.path}: use another state directory"
                )
            return state
        options = self._options
        found = resolve(
            self.source.offsets,
            parse_position(options.topic, "start", options.start),
            parse_position(options.topic, "end", options.end or "latest"),
        )
        end = None if self._job.is_continuous else found.end
        return ReplayState(topic_id=topic_id, start=found.start, end=end, done=found.start)

    def _claim(self) -> None:
        self._job.state.claim("replay", self._options.identity(is_continuous=self._job.is_continuous))

    def selected(self, end: Offsets) -> "DataFrame":
        """Return the records from the position in the state to `end` for which the filter is true."""
        source = topic_rows(self._job.spark, self._job.kafka, self.state.done, end)
        return step_frame.filtered(source, self._options.filter)

    def report(self) -> Report:
        """Return a report of what is done so far."""
        state, counts = self.state, self.state.counts
        rows = {
            "topic": self._options.topic,
            "to": self._options.to,
            "status": "complete" if self._is_complete else "stopped",
            "records_read": counts.read,
            "records_written": counts.written,
            "records_written_by_this_run": self._written,
            "records_repeated_at_most": counts.repeated_max,
            "steps": counts.steps,
        }
        partitions = [
            (one.partition, state.start[one], None if state.end is None else state.end[one], state.done[one])
            for one in sorted(state.start)
        ]
        return Report(rows, (Table("Offsets", ("partition", "start", "end", "replayed_to"), partitions),))

    def _save(self, state: ReplayState) -> None:
        self._job.state.write(STATE, state.to_json())
        self.state = state

    # How a step is written, recorded and repeated

    def _repeat_interrupted_step(self) -> None:
        """
        Repeat the step that an earlier run began but did not complete, and count the records that it may have stored.
        """
        interrupted = self.state.step
        if interrupted is None:
            return
        size = waiting_count(self.state.done, interrupted.end)
        stored = min(waiting_count(interrupted.target, self._target_ends()), size)
        self._job.progress.note(f"an earlier run was interrupted: up to {stored} of {size} records are written again")
        self._save(self.state.repeated(stored))
        self._step(interrupted.end, self.ends())

    def _step(self, end: Offsets, ends: Offsets) -> None:
        self._learn_due_times(ends)
        before = self._target_ends()
        self._save(self.state.step_begun(Step(end=end, target=before)))
        read, written = self._write(end)
        grown = waiting_count(before, self._target_ends())
        if grown < written:
            raise RecordsMissing(
                f"topic {self._options.to!r} has {grown} new records, and {written} were acknowledged: a broker has "
                "lost records; the next run writes this step again"
            )
        size = waiting_count(self.state.done, end)
        # Growth beyond the written records is due to other producers, or to task attempts that Spark has repeated.
        self._save(self.state.step_done(read=read, written=written).repeated(min(grown - written, written)))
        self._written += written
        self._job.progress.advance(size, lag=waiting_count(self.state.done, ends))

    def _write(self, end: Offsets) -> tuple[int, int]:
        """
        Write the records from the position in the state to `end`.

        Return the numbers of records read and written.
        """
        from pyspark.sql import Observation

        counts = Observation()
        source = topic_rows(self._job.spark, self._job.kafka, self.state.done, end)
        chosen = step_frame.counted(source, self._options.filter, counts)
        has_partition = self._options.keep_partitions
        if self._options.into_timer:
            # Without due times, no record is known, and the filter selects none of this step.
            rows = step_frame.delayed(chosen, self.state.due or UNSHIFTED, has_partition=has_partition)
        else:
            rows = step_frame.shifted(chosen, self._options.shift_by, has_partition=has_partition)
        with small_batches(self._job.spark):
            sink = rows.write.format("tidemill").mode("append").options(**self._job.kafka)
            sink.option("topic", self._options.to).save()
        return counts.get["read"], counts.get["kept"]

    def _target_ends(self) -> Offsets:
        """Return how much was written to each partition of the target.  What waits in it has no offset yet."""
        return self._target.arrival_ends() if self._options.into_timer else self._target.ends()

    # When records that are written to a timer topic are due

    def _learn_due_times(self, ends: Offsets) -> None:
        """
        Store when records are due, before the first of them is written, so that later runs go on with the same times.

        The first record is the one with the lowest timestamp up to `ends`; Spark reads the range once to find it.
        """
        from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

        if not self._options.into_timer or self.state.due is not None:
            return
        (first,) = self.selected(ends).agg(F.min(F.unix_millis("timestamp"))).collect()[0]
        if first is not None:
            self._save(self.state.with_due(self.due_times(first)))

    def due_times(self, first_timestamp_ms: int) -> DueTimes:
        """Return when records are due: as the state says, or else with the first record at `first_timestamp_ms`."""
        if self.state.due is not None:
            return self.state.due
        if self._options.shift == TO_NOW:
            first_due_ms = time.time_ns() // 1_000_000
        else:
            first_due_ms = first_timestamp_ms + self._options.shift_by // timedelta(milliseconds=1)
        return DueTimes(
            first_timestamp_ms=first_timestamp_ms, first_due_ms=first_due_ms, speed=self._options.speed or 1.0
        )

    # Which records may be written: up to the end of the range, and only those that are due

    def ends(self) -> Offsets:
        """Return the end of the range.  If the range is open, this is the current end of the topic."""
        if self.state.end is not None:
            return self.state.end
        latest = self.source.ends()
        new = [partition for partition in latest if partition not in self.state.done]
        if new:
            self.state = self.state.with_partitions(self.source.offsets.earliest(new))
        return latest

    def _due(self, ends: Offsets, now: float) -> tuple[Offsets, float]:
        """Return the offsets up to which records are due now, and the time at which to check again."""
        speed = self._options.paced_speed
        if speed is None:
            return ends, now + _POLL_SECONDS
        for partition in ends:
            if partition not in self._times:
                self._times[partition] = times_ahead(self.source.source, partition, self.state.done[partition])
        if self._schedule is None:
            first = self._next_timestamp(ends)
            if first is None:
                return self.state.done, now + _POLL_SECONDS
            self._schedule = RecordTimes(speed, first, now)
        due = self._schedule.timestamp_due(now)
        found = {partition: self._times[partition].due_end(due, end) for partition, end in ends.items()}
        following = self._next_timestamp(ends)
        return found, now + _POLL_SECONDS if following is None else self._schedule.due_at(following)

    def _next_timestamp(self, ends: Offsets) -> int | None:
        known = [self._times[partition].next_timestamp(end) for partition, end in ends.items()]
        return min((timestamp for timestamp in known if timestamp is not None), default=None)

    # How the speed of the replay is limited

    def _step_records(self) -> int:
        rate = self._options.rate_records
        return self._options.step_records if rate is None else min(self._options.step_records, rate)

    def _next_step_at(self, began_at: float) -> float:
        due_at = began_at if self._options.paced_speed is None else began_at + _STEP_SECONDS_MIN
        return due_at if self._rate is None else max(due_at, self._rate.due_at(self._written))

    def _wait_until(self, wake_at: float) -> None:
        while (left := wake_at - time.monotonic()) > 0 and not self._job.stop_requested():
            time.sleep(min(left, _STOP_SECONDS))


def _all_records(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for the target: its end offsets must include the records of open transactions."""
    kept = {name: value for name, value in kafka.items() if name.lower() != "kafka.isolation.level"}
    return {**kept, "kafka.isolation.level": "read_uncommitted"}
