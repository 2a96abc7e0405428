"""Runs a pipeline: creates the job, locks its state directory, and returns its report."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.option_values import build
from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.progress import Progress, SilentProgress
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.state_directory import StateDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOTSTRAP = "kafka.bootstrap.servers"


def make_job(
    spark: "SparkSession",
    pipeline: Pipeline[Any],
    options: Mapping[str, object],
    *,
    state: Path | str,
    bootstrap_servers: str,
    kafka: Mapping[str, str] | None = None,
    is_continuous: bool = False,
    progress: Progress | None = None,
    stop_requested: Callable[[], bool] = lambda: False,
) -> Job[Any]:
    """
    Create the job of a pipeline, without writing anything.

    `kafka` contains further client settings, such as `sasl.username`, with or without the prefix `kafka.`.  Raise
    ValueError or TypeError for an invalid option.
    """
    settings = {BOOTSTRAP: bootstrap_servers}
    for name, value in (kafka or {}).items():
        full = name if name.startswith("kafka.") else f"kafka.{name}"
        if full == BOOTSTRAP:
            raise ValueError(f"kafka has {name}: pass it as bootstrap_servers only")
        settings[full] = value
    return Job(
        spark=spark,
        options=build(pipeline.options, options),
        kafka=settings,
        state=StateDirectory(state),
        progress=progress or SilentProgress(),
        is_continuous=is_continuous,
        stop_requested=stop_requested,
    )


def run(pipeline: Pipeline[Any], job: Job[Any]) -> Report:
    """Run the job and return its report.  Raise StateRefused if another run is using the state directory."""
    with job.state.locked():
        return pipeline.run(job)
