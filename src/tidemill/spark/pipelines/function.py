"""Calls a pipeline as a Python function."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.spark.pipelines.frame.pipeline import Pipeline
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.progress import Progress
from tidemill.spark.pipelines.frame.report import Report
from tidemill.spark.pipelines.frame.run import make_job, run
from tidemill.spark.pipelines.registry import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PipelineFunction:
    """A callable that runs a pipeline, which is imported when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<pipeline {self._name}>"

    @property
    def pipeline(self) -> Pipeline[Any]:
        """The declaration of the pipeline, including the class of its options."""
        return load(self._name)

    def __call__(
        self,
        spark: "SparkSession",
        *,
        state: Path | str,
        bootstrap_servers: str,
        kafka: Mapping[str, str] | None = None,
        is_continuous: bool = False,
        progress: Progress | None = None,
        **options: object,
    ) -> Report:
        """
        Run the pipeline and return its report.

        `options` are those that `tidemill pipeline describe` lists, with `_` for `-`; a size or a duration may be text.
        `kafka` contains further client settings, such as {"sasl.username": …}.  With `is_continuous`, the run continues
        with new records until it is interrupted.

        Raise ValueError or TypeError for an invalid argument.  Errors of Spark and of the clients propagate unchanged.
        """
        pipeline = self.pipeline
        job = make_job(
            spark,
            pipeline,
            options,
            state=state,
            bootstrap_servers=bootstrap_servers,
            kafka=kafka,
            is_continuous=is_continuous,
            progress=progress,
        )
        return run(pipeline, job)

    def read(self, spark: "SparkSession", path: Path | str) -> "DataFrame":
        """
        Return the pipeline's output in a directory.

        Raise TypeError if the pipeline does not write to a directory.
        """
        read = self.pipeline.read
        if read is None:
            raise TypeError(f"pipeline {self._name} writes to no directory that could be read")
        return read(spark, path)

    def plan(
        self,
        spark: "SparkSession",
        *,
        state: Path | str,
        bootstrap_servers: str,
        kafka: Mapping[str, str] | None = None,
        is_continuous: bool = False,
        **options: object,
    ) -> Plan:
        """Return what a call with the same arguments would do.  Nothing is written."""
        pipeline = self.pipeline
        job = make_job(
            spark,
            pipeline,
            options,
            state=state,
            bootstrap_servers=bootstrap_servers,
            kafka=kafka,
            is_continuous=is_continuous,
        )
        return pipeline.plan(job)
