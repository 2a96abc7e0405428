"""The plan of a snapshot: what would be read, and the estimated number of keys."""

from tidemill.columnar.offset_ranges import waiting_count
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.table import Table
from tidemill.spark.pipelines.frame.topic_rows import topic_rows
from tidemill.spark.pipelines.snapshot import snapshot_reader
from tidemill.spark.pipelines.snapshot.options import SnapshotOptions
from tidemill.spark.pipelines.snapshot.snapshot_run import SnapshotRun


def plan(job: Job[SnapshotOptions], run: SnapshotRun) -> Plan:
    """Return the plan.  Spark reads the keys of the range in order to estimate their number."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

    is_full = job.options.full
    starts, ends = run.bounds(is_full=is_full)
    last = None if is_full else run.last
    keys = topic_rows(job.spark, job.kafka, starts, ends, "key binary").where("key IS NOT NULL")
    if last is not None:
        keys = keys.union(snapshot_reader.version(job.spark, run.path, last).select("key"))
    (estimate,) = keys.agg(F.approx_count_distinct("key")).collect()[0]
    return Plan(
        f"Snapshot of {job.options.topic} in {run.path}",
        (
            ("topic", job.options.topic),
            ("to", str(run.path)),
            ("last version", "none" if run.last is None else str(run.last.version)),
            ("keys in the last version", "0" if run.last is None else str(run.last.keys)),
            ("read", "the whole topic" if last is None else "what is new since the last version"),
            ("offsets", str(waiting_count(starts, ends))),
            ("keys", f"about {estimate}, with those that were deleted since the last version"),
        ),
        (
            Table(
                "Offsets",
                ("partition", "start", "end", "offsets"),
                [(p.partition, starts[p], ends[p], ends[p] - starts[p]) for p in sorted(ends)],
            ),
        ),
    )
