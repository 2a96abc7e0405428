"""Declares the pipeline `archive`."""

from typing import TYPE_CHECKING

from tidemill.spark.pipelines.archive.options import ArchiveOptions
from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.pipeline import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.spark.pipelines.frame.plan import Plan
    from tidemill.spark.pipelines.frame.report import Report


def _plan(job: Job[ArchiveOptions]) -> "Plan":
    from tidemill.spark.pipelines.archive import archive_plan

    return archive_plan.plan(job)


def _run(job: Job[ArchiveOptions]) -> "Report":
    from tidemill.spark.pipelines.archive import archive_run

    return archive_run.run(job)


def _read(spark: "SparkSession", path: "Path | str") -> "DataFrame":
    from tidemill.spark.pipelines.archive import archive_reader

    return archive_reader.read(spark, path)


PIPELINE = Pipeline(
    name="archive",
    summary="copy a topic to Parquet files or an Iceberg table, each offset exactly once",
    options=ArchiveOptions,
    plan=_plan,
    run=_run,
    read=_read,
    checks="The batches of the archive follow each other without a gap, and belong to this topic.",
    example="--topic flights --to /archive/flights",
)
