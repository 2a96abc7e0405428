"""The report of a write task to the driver, and the driver's decision about the reports of all tasks.

The sink is at-least-once: when a task reports, its records are stored, and the decision changes nothing in the cluster.
The decision may therefore be repeated for the same query and batch, as Spark does after a restart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from tidemill.columnar.topic_writer import WriteSummary
from tidemill.model.partition import TopicPartition


@dataclass(kw_only=True)
class TaskReport(WriterCommitMessage):
    """The report of a successful task: all of its records are acknowledged by all in-sync replicas."""

    query_id: str | None  # None in a batch query
    batch_id: int | None
    task: int  # the number of the Spark partition
    attempt: int
    summary: WriteSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDecision:
    """The sum of the reports of one batch query or micro-batch."""

    records: int = 0
    bytes: int = 0
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


class MixedReports(Exception):
    """Reports of different queries or micro-batches were passed to one decision."""


def decide(reports: Sequence[WriterCommitMessage | None]) -> WriteDecision:
    """
    Return the sum of the reports of one write.

    Raise MixedReports if they do not belong to one write, or if one is missing.
    """
    known = [report for report in reports if isinstance(report, TaskReport)]
    if len(known) < len(reports):
        raise MixedReports(f"{len(reports) - len(known)} of {len(reports)} tasks have no report of this sink")
    writes = {(report.query_id, report.batch_id) for report in known}
    if len(writes) > 1:
        raise MixedReports(f"the tasks belong to several writes: {sorted(map(str, writes))}")
    offsets: dict[TopicPartition, tuple[int, int]] = {}
    for report in known:
        for partition, (first, end) in report.summary.offsets.items():
            before = offsets.get(partition, (first, end))
            offsets[partition] = (min(before[0], first), max(before[1], end))
    return WriteDecision(
        records=sum(report.summary.records for report in known),
        bytes=sum(report.summary.bytes for report in known),
        offsets=offsets,
    )
