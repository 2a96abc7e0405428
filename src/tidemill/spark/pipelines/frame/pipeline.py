"""Declares a pipeline: its name, its options, how it plans and how it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from tidemill.spark.pipelines.frame.job import Job
from tidemill.spark.pipelines.frame.plan import Plan
from tidemill.spark.pipelines.frame.report import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Options = TypeVar("Options")


@dataclass(frozen=True, slots=True)
class Pipeline(Generic[Options]):
    """
    A pipeline, which each folder of `pipelines` has as PIPELINE in its `pipeline.py`.

    That file imports pyspark and pyarrow inside functions only, because `tidemill pipeline list` loads it.
    """

    name: str
    summary: str  # one line, which `tidemill pipeline list` shows
    options: type[Options]  # a frozen dataclass of `option` fields; `__post_init__` refuses values with ValueError
    plan: Callable[[Job[Options]], Plan]  # reads only
    run: Callable[[Job[Options]], Report]  # resumes from `job.state`
    checks: str = ""  # one sentence about what a run checks, which `tidemill pipeline describe` shows
    read: Callable[["SparkSession", Path | str], "DataFrame"] | None = None  # what the pipeline has written to a path
    example: str = ""  # options of an example, such as "--topic orders --to archive"
