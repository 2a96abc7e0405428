"""Runs the archive pipeline: batch after batch, each starting where the newest committed batch ends.

Only the target records what is archived: it stores the offsets of each batch, committed atomically with the batch's
rows.  A run that is killed has either committed its batch or not, and the next run continues after the last committed
batch.
"""

import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tidemill.columnar.data_loss import DataLossError, OnDataLoss
from tidemill.spark.pipelines.archive import batch_write, next_batch
from tidemill.spark.pipelines.archive.batch_entry import BatchEntry, LostOffsets
from tidemill.spark.pipelines.archive.file_plan import plan_files
from tidemill.spark.pipelines.archive.layout import SCHEMA
from tidemill.spark.pipelines.archive.next_batch import PlannedBatch
from tidemill.spark.pipelines.archive.options import ArchiveOptions
from tidemill.spark.pipelines.archive.source_topic import SourceTopic
from tidemill.spark.pipelines.archive.staging import Staging, merged
from tidemill.spark.pipelines.archive.target import StagedFiles, Target
from tidemill.spark.pipelines.archive.targets import open_target
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.table import Table

_STOP_SECONDS: Final = 0.2  # how often a run that is waiting for records checks whether to stop


def run(job: Job[ArchiveOptions]) -> Report:
    """
    Archive the records that the topic contains when the run starts; a continuous run continues until it is stopped.

    Raise ArchiveRefused if the target is not an archive of this topic, and DataLossError if records are missing and the
    option on_data_loss is `fail`.  Errors of Spark and of the client propagate unchanged.
    """
    options = job.options
    job.state.claim("archive", options.identity)
    done = _Done()
    with closing(open_target(job)) as target, closing(SourceTopic(job.kafka, options.topic)) as source, target.locked():
        last = target.last()
        next_batch.check_division(last, options.partition_by)
        target.clean(last)
        bounds = source.bounds(last)
        until = None if job.is_continuous else bounds.latest
        total = next_batch.everything(last, bounds, until).offset_count
        job.progress.begin(f"archive {options.topic}", None if job.is_continuous else total)
        while not job.stop_requested():
            pending = next_batch.everything(last, source.bounds(last), until)
            if not pending.is_empty:
                last = _archive_next(job, source, target, pending, last)
                done.add(last)
                job.progress.advance(last.rows, last.bytes, lag=_lag(pending, last))
            elif job.is_continuous:
                _wait(job)
            else:
                break
    return done.report(options.on_data_loss)


@dataclass(slots=True)
class _Done:
    """What this run has archived."""

    batches: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    lost: list[LostOffsets] = field(default_factory=list)

    def add(self, entry: BatchEntry) -> None:
        self.batches += 1
        self.rows += entry.rows
        self.files += entry.file_count
        self.bytes += entry.bytes
        self.lost = list(merged([*self.lost, *entry.lost]))
        for partition, (start, end) in entry.ranges.items():
            self.ranges[partition] = (self.ranges.get(partition, (start, end))[0], end)

    def report(self, on_data_loss: OnDataLoss) -> Report:
        offsets = [(partition, *self.ranges[partition]) for partition in sorted(self.ranges)]
        tables = [Table("archived offsets", ("partition", "start", "end"), offsets)]
        if self.lost and on_data_loss is OnDataLoss.REPORT:
            lost = [(one.partition, one.start, one.end) for one in self.lost]
            tables.append(Table("lost offsets", ("partition", "start", "end"), lost))
        rows = {
            "batches": self.batches,
            "records": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "lost offsets": sum(one.end - one.start for one in self.lost),
        }
        return Report(rows, tuple(tables))


def _archive_next(
    job: Job[ArchiveOptions], source: SourceTopic, target: Target, pending: PlannedBatch, last: BatchEntry | None
) -> BatchEntry:
    """Write and commit the next batch."""
    options = job.options
    profiles = source.profiles(pending)
    batch = next_batch.bounded(pending, profiles, records_max=options.batch_records, bytes_max=options.batch_bytes)
    _check_lost(job, batch)
    stored = next_batch.stored_bytes(batch, profiles)
    staging = target.stage(batch.number)
    if batch.to_read:
        files = plan_files(batch.offset_count, stored, options.target_size, last)
        batch_write.write(
            job.spark,
            job.kafka,
            batch,
            staging,
            partition_by=options.partition_by,
            files=files,
            on_data_loss=options.on_data_loss,
        )
    written = list(staging.files())
    entry = _entry(batch, staging, written, options, stored)
    # Check the topic id once more: if it is unchanged, the topic was not deleted and created again during the read.
    next_batch.check_topic(entry, source.bounds(entry))
    return target.commit(staging, entry, written)


def _entry(
    batch: PlannedBatch, staging: Staging, written: StagedFiles, options: ArchiveOptions, stored: int
) -> BatchEntry:
    rows = sum(file.rows for _, file in written)
    assert rows <= batch.offset_count, f"{rows} rows were written for {batch.offset_count} offsets"
    return BatchEntry(
        number=batch.number,
        batch_id=staging.batch_id,
        topic=batch.topic,
        topic_id=batch.topic_id,
        partition_by=options.partition_by.value,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        ranges={one.partition: (begin, batch.ends[one]) for one, begin in batch.begins.items()},
        lost=merged([*batch.lost, *staging.lost()]),
        rows=rows,
        bytes=sum(file.bytes for _, file in written),
        file_count=len(written),
        stored_bytes=stored,
        schema=SCHEMA,
        files=tuple(file for _, file in written),
    )


def _check_lost(job: Job[ArchiveOptions], batch: PlannedBatch) -> None:
    """Raise DataLossError if records are missing and the option on_data_loss is `fail`."""
    if not batch.lost:
        return
    lost = ", ".join(f"{one.start} to {one.end} of {batch.topic}-{one.partition}" for one in batch.lost)
    what = f"offsets {lost} were removed from the topic before they were archived"
    if job.options.on_data_loss is OnDataLoss.FAIL:
        raise DataLossError(f"{what}: pass on_data_loss=skip or report to go on without them")
    job.progress.note(f"{what}; batch {batch.number} names them")


def _lag(pending: PlannedBatch, entry: BatchEntry) -> int:
    """Return how many of the pending offsets are not archived yet."""
    return sum(end - max(entry.ends[one.partition], pending.starts[one]) for one, end in pending.ends.items())


def _wait(job: Job[ArchiveOptions]) -> None:
    """Wait for the poll interval, or until a stop is requested."""
    ends_at = time.monotonic() + job.options.poll_interval.total_seconds()
    while not job.stop_requested() and (left := ends_at - time.monotonic()) > 0:
        time.sleep(min(left, _STOP_SECONDS))
