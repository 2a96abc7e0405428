"""One run of a pipeline: the session, the options, and the receiver of progress."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from tidemill.spark.pipelines.frame.progress import Progress
from tidemill.spark.pipelines.frame.state_directory import StateDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Options = TypeVar("Options")


@dataclass(frozen=True, slots=True)
class Job(Generic[Options]):
    """Everything that a pipeline needs in order to plan and run."""

    spark: "SparkSession"
    options: Options
    kafka: Mapping[
        str, str
    ]  # options `kafka.*` of `format("tidemill")` and `tidemill.arrow`, at least kafka.bootstrap.servers
    state: StateDirectory
    progress: Progress
    is_continuous: bool  # False: process the records that exist at the start, then end
    stop_requested: Callable[[], bool]  # true after Ctrl-C or SIGTERM: end after the current step
