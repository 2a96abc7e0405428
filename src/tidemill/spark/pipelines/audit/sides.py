"""Both sides of an audit: the reference topic, and the topic or archive that is compared with it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.spark.pipelines.audit import archive_rows, topic_rows
from tidemill.spark.pipelines.audit.bounds import Bounds
from tidemill.spark.pipelines.audit.checksum import labelled
from tidemill.spark.pipelines.audit.options import AuditOptions, By
from tidemill.spark.pipelines.frame.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The offset ranges of both sides when the audit began, and the ranges that are compared."""

    source: Bounds
    target: Bounds
    compared: Bounds  # used only by an audit by offset; an audit by key compares all offsets of both sides

    @property
    def expired(self) -> int:
        """The number of offsets that only one side still has, because retention removed them from the other side."""
        low = {p: min(start, self.target.starts.get(p, start)) for p, start in self.source.starts.items()}
        return sum(max(0, start - low[p]) for p, start in self.compared.starts.items())

    @property
    def not_archived(self) -> int:
        """The number of offsets of the topic after the compared ranges."""
        return sum(max(0, end - self.compared.ends[p]) for p, end in self.source.ends.items())


def resolve(job: Job[AuditOptions]) -> Sides:
    """
    Look up the offset ranges of both sides.

    Raise ValueError if the sides cannot be compared by offset, because their partition counts differ.
    """
    options = job.options
    source = topic_rows.bounds_of(job.kafka, options.topic, options.start, options.end)
    if options.by is By.KEY:
        return Sides(source=source, target=_target_by_key(job), compared=source)
    if options.target is not None:
        target = topic_rows.bounds_of(job.kafka, options.target, "earliest", "latest")
        is_whole = (options.start, options.end) == ("earliest", "latest")  # otherwise `source` may lack partitions
        if source.starts.keys() - target.starts.keys() or (is_whole and target.starts.keys() - source.starts.keys()):
            raise ValueError(
                f"topic={options.topic} has {len(source.starts)} partitions and target={options.target} "
                f"{len(target.starts)}, so offsets cannot be compared: use by=key"
            )
        return Sides(source=source, target=target, compared=with_all(source, target, options))
    assert options.archive is not None
    target = archive_rows.bounds_of(options.archive, options.topic)
    return Sides(source=source, target=target, compared=with_archived(source, target, options))


def rows(job: Job[AuditOptions], sides: Sides, compared: Bounds | None = None) -> "DataFrame | None":
    """
    Return the rows of both sides with the column `side`, or None if there are no rows.

    Only rows in `compared` are returned; if it is None, the rows of all offsets.
    """
    options = job.options
    source_bounds = sides.source if compared is None else compared.clipped(sides.source)
    target_bounds = sides.target if compared is None else compared.clipped(sides.target)
    source = topic_rows.rows_of(job.spark, job.kafka, options.topic, source_bounds)
    if options.target is not None:
        target = topic_rows.rows_of(job.spark, job.kafka, options.target, target_bounds)
    else:
        assert options.archive is not None
        target = archive_rows.rows_of(job.spark, options.archive, target_bounds)
    return None if source is None and target is None else labelled(source, target)


def _target_by_key(job: Job[AuditOptions]) -> Bounds:
    options = job.options
    if options.target is None:
        assert options.archive is not None
        return archive_rows.bounds_of(options.archive, options.topic)
    return topic_rows.bounds_of(job.kafka, options.target, options.target_start, options.target_end)


def with_all(source: Bounds, target: Bounds, options: AuditOptions) -> Bounds:
    """
    Return the offset ranges in which two topics are compared: from the first offset that both still have to the last
    offset of either topic.

    A start or end that is set by an option applies to both topics.
    """
    starts = {p: max(start, target.starts[p]) for p, start in source.starts.items()}
    ends = dict(source.ends)
    if options.end == "latest":
        ends = {p: max(end, target.ends[p]) for p, end in source.ends.items()}
    return Bounds(starts, {p: max(starts[p], end) for p, end in ends.items()})


def with_archived(source: Bounds, target: Bounds, options: AuditOptions) -> Bounds:
    """
    Return the offset ranges in which a topic is compared with its archive: from the topic's first offset to the last
    archived offset.

    Records that retention has removed from the topic are expected to be only in the archive.  Archived offsets beyond
    the topic's end are compared as well: they show that the topic was deleted and created again.
    """
    ends = {}
    for partition, end in source.ends.items():
        archived = target.ends.get(partition, source.starts[partition])
        if options.end == "latest":
            ends[partition] = max(end, archived) if options.complete else archived
        else:
            ends[partition] = end if options.complete else min(end, archived)
    return Bounds(source.starts, {p: max(source.starts[p], end) for p, end in ends.items()})
