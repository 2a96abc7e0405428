"""One run of a snapshot.  Each new version merges the previous version with the records written since."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tidemill.columnar.offset_ranges import OffsetRange, divided, limited, waiting_count
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.one_topic import OneTopic
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.state_directory import StateDirectory
from tidemill.spark.pipelines.frame.table import Table
from tidemill.spark.pipelines.snapshot import manifest, newest_frame, snapshot_reader
from tidemill.spark.pipelines.snapshot.manifest import Manifest, SnapshotRefused
from tidemill.spark.pipelines.snapshot.newest_rows import MERGED
from tidemill.spark.pipelines.snapshot.options import SnapshotOptions
from tidemill.spark.pipelines.snapshot.range_reduction import reduced

Offsets = Mapping[TopicPartition, int]

_TASK_RECORDS_MAX: Final = 5_000_000  # larger ranges are divided, so that all cores have work
_STOP_SECONDS: Final = 0.2  # how often to check whether the run should stop


@dataclass(slots=True)
class Counts:
    """Counts of what a run has done."""

    versions: int = 0
    records: int = 0
    without_key: int = 0
    deleted: int = 0  # keys whose newest record is a tombstone
    in_several_partitions: int = 0  # keys found in several partitions, counted once per version


class SnapshotRun:
    """Updates a snapshot to the end of its topic."""

    def __init__(self, job: Job[SnapshotOptions]) -> None:
        self._job = job
        self._options = job.options
        self.path = Path(job.options.to).absolute()
        self.last = manifest.read(self.path)
        self._counts = Counts()
        self._opened = ExitStack()
        self._topic = self._opened.enter_context(
            OneTopic(job.options.topic, job.kafka, has_headers=job.options.headers)
        )
        try:
            self._topic_id = self._topic.topic_id()
            self._refuse_unfit()
        except BaseException:
            self._opened.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def run(self) -> Report:
        """Write versions until the snapshot has reached the end of the topic, or until a stop is requested."""
        self._job.state.claim("snapshot", {"topic": self._options.topic, "to": str(self.path)})
        with self._locked():
            self.last = manifest.read(self.path)  # the manifest read by the constructor may be outdated
            self._refuse_unfit()
            self._remove_others()
            is_first, is_full = True, self._options.full
            while is_first or self._job.is_continuous:
                began_at = time.monotonic()
                self._reach_end(is_full=is_full)
                is_first = is_full = False
                if self._job.stop_requested():
                    break
                if self._job.is_continuous:
                    self._wait_until(began_at + self._options.interval.total_seconds())
        return self._report()

    def bounds(self, *, is_full: bool) -> tuple[Offsets, Offsets]:
        """Return the start and end offsets to read.  Raise SnapshotRefused if records between them are gone."""
        ends = self._topic.ends()
        earliest = self._topic.offsets.earliest(ends)
        if self.last is None or is_full:
            return earliest, ends
        starts = {**earliest, **self.last.offsets}
        for partition, start in sorted(starts.items()):
            if not earliest.get(partition, start) <= start <= ends.get(partition, -1):
                raise SnapshotRefused(
                    f"to={self.path} has the records of partition {partition.partition} before offset {start}, and "
                    f"topic {partition.topic!r} has offsets {earliest.get(partition)} to {ends.get(partition)}: "
                    "records in between are gone; read the whole topic with full=true"
                )
        return starts, ends

    def _locked(self) -> AbstractContextManager[None]:
        """Lock the snapshot directory against other runs, which may use a different state directory."""
        return nullcontext() if self._job.state.path == self.path else StateDirectory(self.path).locked()

    def _refuse_unfit(self) -> None:
        """Raise SnapshotRefused if the snapshot in the directory cannot be continued with these options."""
        last = self.last
        if last is None:
            return
        if last.topic != self._options.topic:
            raise SnapshotRefused(f"topic={self._options.topic}: to={self.path} has a snapshot of topic {last.topic!r}")
        if self._options.full:
            return
        if last.topic_id != self._topic_id:
            raise SnapshotRefused(
                f"topic {last.topic!r} was deleted and created again since the snapshot in to={self.path}: read the "
                "whole topic with full=true"
            )
        if last.has_headers != self._options.headers:
            raise SnapshotRefused(
                f"headers={str(self._options.headers).lower()}: to={self.path} has a snapshot with "
                f"headers={str(last.has_headers).lower()}; use the same, or read the whole topic with full=true"
            )

    # How new versions of the snapshot are written

    def _reach_end(self, *, is_full: bool) -> None:
        starts, ends = self.bounds(is_full=is_full)
        waiting = waiting_count(starts, ends)
        if not waiting and self.last is not None and not is_full:
            return
        self._job.progress.begin(f"snapshot of {self._options.topic}", waiting)
        while True:
            # Write a full version in a single step: it replaces a version that may be newer than the first of several
            # steps.
            end = ends if is_full else limited(starts, ends, self._options.step_records)
            self._write_version(starts, end, None if is_full else self.last)
            self._job.progress.advance(waiting_count(starts, end), lag=waiting_count(end, ends))
            if waiting_count(end, ends) == 0 or self._job.stop_requested():
                return
            starts = end

    def _write_version(self, starts: Offsets, ends: Offsets, merged_with: Manifest | None) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

        version = 1 if self.last is None else self.last.version + 1
        directory = self.path / manifest.version_directory(version)
        rows = reduced(self._job.spark, self._topic.source, self._ranges(starts, ends))
        if merged_with is not None:
            before = snapshot_reader.version(self._job.spark, self.path, merged_with)
            rows = rows.unionByName(before.withColumn(MERGED, F.lit(0).cast("long")))
        has_key, has_value = F.isnotnull("key"), F.isnotnull("value")
        counts = Observation()
        newest = newest_frame.newest(rows).observe(
            counts,
            F.sum(MERGED).alias("records"),
            F.sum(F.when(has_key, 0).otherwise(F.col(MERGED))).alias("without_key"),
            F.count_if(has_key & has_value).alias("keys"),
            F.count_if(has_key & ~has_value).alias("deleted"),
            F.count_if(has_key & (F.col(newest_frame.PARTITIONS) > 1)).alias("in_several_partitions"),
        )
        kept = newest.where(has_key & has_value).drop(MERGED, newest_frame.PARTITIONS)
        kept.write.mode("overwrite").parquet(f"file://{directory}")
        self._count(counts.get)
        done = Manifest(
            topic=self._options.topic,
            topic_id=self._topic_id,
            version=version,
            offsets=ends,
            has_headers=self._options.headers,
            keys=counts.get["keys"],
        )
        manifest.commit(self.path, done)
        self.last = done
        self._remove_others()

    def _ranges(self, starts: Offsets, ends: Offsets) -> list[OffsetRange]:
        topic_ids = self._topic.offsets.topic_ids([self._topic.name])
        ranges = [
            OffsetRange(*partition, starts[partition], end, topic_ids[partition.topic])
            for partition, end in sorted(ends.items())
        ]
        return divided(ranges, records_per_partition_max=_TASK_RECORDS_MAX)

    def _count(self, version: Mapping[str, int]) -> None:
        self._counts.versions += 1
        self._counts.records += version["records"]
        self._counts.without_key += version["without_key"]
        self._counts.deleted += version["deleted"]
        self._counts.in_several_partitions += version["in_several_partitions"]
        if version["in_several_partitions"]:
            self._job.progress.note(
                f"{version['in_several_partitions']} keys are in several partitions: the record with the newest "
                "timestamp is kept"
            )

    def _remove_others(self) -> None:
        current = None if self.last is None else self.last.version
        manifest.remove_others(self.path, current, kept=self._options.keep_versions)

    def _wait_until(self, wake_at: float) -> None:
        while (left := wake_at - time.monotonic()) > 0 and not self._job.stop_requested():
            time.sleep(min(left, _STOP_SECONDS))

    def _report(self) -> Report:
        counts, last = self._counts, self.last
        assert last is not None, "the first run writes a version, also of an empty topic"
        return Report(
            {
                "topic": last.topic,
                "to": str(self.path),
                "version": last.version,
                "versions_written": counts.versions,
                "keys": last.keys,
                "records_read": counts.records,
                "records_without_key": counts.without_key,
                "keys_deleted": counts.deleted,
                "keys_in_several_partitions": counts.in_several_partitions,
            },
            (Table("Offsets", ("partition", "end"), [(p.partition, end) for p, end in sorted(last.offsets.items())]),),
        )
