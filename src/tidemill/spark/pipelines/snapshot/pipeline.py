"""The pipeline `snapshot`: stores the newest value of every key of a topic as Parquet."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.snapshot.options import SnapshotOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _plan(job: Job[SnapshotOptions]) -> Plan:
    from tidemill.spark.pipelines.snapshot import snapshot_plan
    from tidemill.spark.pipelines.snapshot.snapshot_run import SnapshotRun

    with SnapshotRun(job) as run:
        return snapshot_plan.plan(job, run)


def _run(job: Job[SnapshotOptions]) -> Report:
    from tidemill.spark.pipelines.snapshot.snapshot_run import SnapshotRun

    with SnapshotRun(job) as run:
        return run.run()


def _read(spark: "SparkSession", path: Path | str) -> "DataFrame":
    from tidemill.spark.pipelines.snapshot import snapshot_reader

    return snapshot_reader.read(spark, path)


PIPELINE: Final = Pipeline(
    name="snapshot",
    summary="keep the newest value of every key of a topic as Parquet",
    options=SnapshotOptions,
    plan=_plan,
    run=_run,
    read=_read,
    checks="A version is read only when it is complete; keys in several partitions are counted.",
    example="--topic planes --to planes-snapshot",
)
