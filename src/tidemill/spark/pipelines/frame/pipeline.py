"""Declares a pipeline: its name, its options, and its functions `plan` and `run`."""

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
    A pipeline.  Each subpackage of `pipelines` declares one as PIPELINE in its module `pipeline`.

    That module imports pyspark and pyarrow only inside functions, because `tidemill pipeline list` loads it.
    """

    name: str
    summary: str  # one line, shown by `tidemill pipeline list`
    options: type[Options]  # a frozen dataclass of `option` fields; `__post_init__` refuses values with ValueError
    plan: Callable[[Job[Options]], Plan]  # writes nothing
    run: Callable[[Job[Options]], Report]  # resumes from `job.state`
    checks: str = ""  # one sentence about what a run checks, shown by `tidemill pipeline describe`
    read: Callable[["SparkSession", Path | str], "DataFrame"] | None = None  # reads the pipeline's output at a path
    example: str = ""  # options of an example, such as "--topic orders --to archive"
