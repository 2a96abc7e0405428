"""Writes the parts of a backfill, one after the other, and stores in the state which parts are done."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidemill.client.failures import ClientError
from tidemill.spark.pipelines.backfill.backfill_state import BackfillState, Position
from tidemill.spark.pipelines.backfill.options import BackfillOptions
from tidemill.spark.pipelines.backfill.part_writer import PartWriter, polled
from tidemill.spark.pipelines.backfill.parts import Part, of_group
from tidemill.spark.pipelines.backfill.preparation import Preparation
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.one_topic import OneTopic

_POLL_S: Final = 1.0
# Short timeouts, because a part cannot end before a pending request for the end offsets, which only shows progress.
_IMPATIENT: Final = {"kafka.default.api.timeout.ms": "5000", "fetchOffset.numRetries": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLoop:
    """
    Writes the parts that are not done yet.

    Before the first attempt to write a part, the topic's end offsets are stored.  After the part is done, comparing
    them with the new end offsets shows how many records all attempts have written in total.  The next part of the run
    counts from these new end offsets, which also counts records that a process of a killed run is still writing.
    """

    job: Job[BackfillOptions]
    prepared: Preparation
    state: BackfillState
    writer: PartWriter
    open_topic: Callable[[str, Mapping[str, str]], OneTopic] = OneTopic

    def run(self) -> Position:
        """Write until all parts are done or a stop is requested.  Return the position that was reached."""
        position = self.state.position()
        groups = self.prepared.plan.groups
        ends: Mapping[int, int] = {}  # end offsets of the topic after the last part of this run
        with self.open_topic(self.job.options.topic, self.job.kafka) as topic:
            while position.group < len(groups):
                parts = self._parts(position.group)
                while position.part < len(parts):
                    if self.job.stop_requested():
                        return position
                    position, ends = self._write(topic, parts[position.part], position, ends)
                position = replace(position, group=position.group + 1, part=0)
                self.state.keep_position(position)
                shutil.rmtree(self.state.sorted_directory(position.group - 1), ignore_errors=True)
        return position

    def _parts(self, index: int) -> list[Part]:
        group = self.prepared.plan.groups[index]
        if not group.is_sorted_first:
            return [of_group(group)]
        known = self.state.parts(index)
        if known is not None:
            return known
        self.job.progress.note(f"sorting {len(group.files)} files with {group.records:,} records")
        count = group.part_count(self.prepared.plan.part_records)
        parts = self.prepared.reader.sort(group, self.state.sorted_directory(index), count)
        self.state.keep_parts(index, parts)
        return parts

    def _write(
        self, topic: OneTopic, part: Part, position: Position, ends: Mapping[int, int]
    ) -> tuple[Position, Mapping[int, int]]:
        """Write one part.  Return the position and the topic's end offsets after it."""
        if position.begun_at:
            position = replace(position, repeated_parts=position.repeated_parts + 1)
            self.job.progress.note(f"part {position.parts + 1} was begun before and is written again")
        else:
            position = replace(position, begun_at=ends or topic.numbered_ends())
        self.state.keep_position(position)
        with self.open_topic(self.job.options.topic, {**self.job.kafka, **_IMPATIENT}) as polled_topic:
            progress = _PartProgress(self.job, part, polled_topic, left=self.prepared.plan.records - position.records)
            with polled(progress.poll, _POLL_S):
                written = self.writer.write(part)
        if written.records != part.records:
            raise ValueError(
                f"{part.paths[0]} and the other files of its part have {written.records} records, and had "
                f"{part.records} when the run was planned: restore them, or start again with another state directory"
            )
        progress.end()
        ends = topic.numbered_ends()
        grown = sum(end - position.begun_at.get(partition, 0) for partition, end in ends.items())
        position = replace(
            position,
            part=position.part + 1,
            parts=position.parts + 1,
            records=position.records + written.records,
            bytes=position.bytes + written.bytes,
            seconds=position.seconds + written.seconds,
            extra_records=position.extra_records + max(grown - written.records, 0),
            begun_at={},
        )
        self.state.keep_position(position)
        return position, ends


class _PartProgress:
    """Estimates from the topic's end offsets how much of a part is written, while Spark writes it."""

    def __init__(self, job: Job[BackfillOptions], part: Part, topic: OneTopic, left: int) -> None:
        """`left` is the number of records in this part and all later parts."""
        self._progress = job.progress
        self._part = part
        self._topic = topic
        self._left = left
        self._ends = sum(topic.numbered_ends().values())
        self._shown = 0  # records of the part already reported as progress

    def poll(self) -> None:
        try:
            grown = sum(self._topic.numbered_ends().values()) - self._ends
        except ClientError:
            return  # Only the progress estimate is missing; the tasks report errors of their own.
        self._show(min(grown, self._part.records))

    def end(self) -> None:
        self._show(self._part.records)

    def _show(self, records: int) -> None:
        more = records - self._shown
        if more > 0:
            self._shown = records
            self._progress.advance(more, self._part.bytes * more // self._part.records, self._left - records)
