"""The options of the pipeline `stats`."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from tidemill.columnar.data_loss import OnDataLoss
from tidemill.spark.pipelines.frame.option import option
from tidemill.spark.pipelines.frame.positions import parse_position
from tidemill.spark.pipelines.frame.quantity import duration_text, parse_duration

TOP_MAX: Final = 10_000  # limited, because the driver sorts the top keys and lists them on the page


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions:
    """What is counted, and where the tables, charts and page are written."""

    topic: str = option("The topic to read.", metavar="TOPIC")
    to: str = option(
        "The directory of the tables, charts and page, which driver and executors see under the same path.",
        metavar="DIR",
    )
    start: str = option(
        "Where the range begins: earliest, a time such as 2013-01-01T00:00:00Z, -10m, -1000, group:NAME, or offsets "
        'by partition, {"0": 23}.',
        default="earliest",
        metavar="POSITION",
    )
    end: str = option("Where the range ends, as start, or latest.", default="latest", metavar="POSITION")
    bucket: timedelta = option(
        "The length of the steps of time in the table per_minute, in whole seconds.",
        default=timedelta(minutes=1),
        parse=parse_duration,
        metavar="DURATION",
    )
    top: int = option("How many keys to list, by records and by bytes.", default=50, metavar="KEYS")
    step_records: int = option(
        "The most offsets of a step; a run that resumes repeats at most one step.",
        default=10_000_000,
        metavar="OFFSETS",
    )
    on_data_loss: OnDataLoss = option(
        "What happens if records are removed from the topic before they are read: fail, or skip them.",
        default=OnDataLoss.FAIL,
    )

    def __post_init__(self) -> None:
        parse_position(self.topic, "start", self.start)
        parse_position(self.topic, "end", self.end)
        if "://" in self.to and not self.to.startswith("file:///"):
            raise ValueError(f"to={self.to}: charts and page are files; pass a path that every machine of Spark has")
        if self.bucket < timedelta(seconds=1) or self.bucket % timedelta(seconds=1):
            raise ValueError(f"bucket={duration_text(self.bucket)} is no whole number of seconds: pass for example 1m")
        if not 1 <= self.top <= TOP_MAX:
            raise ValueError(f"top={self.top} is not from 1 to {TOP_MAX}: the driver keeps these keys")
        if self.step_records < 1:
            raise ValueError(f"step_records={self.step_records} is not above 0: write a whole number from 1")
        if self.on_data_loss is OnDataLoss.REPORT:
            raise ValueError("on_data_loss=report has nowhere to report to here: use fail or skip")

    @property
    def directory(self) -> Path:
        return Path(self.to.removeprefix("file://")).absolute()

    @property
    def bucket_s(self) -> int:
        return self.bucket // timedelta(seconds=1)

    @property
    def identity(self) -> dict[str, str]:
        """The options that must be the same in every run that uses the same state directory."""
        return {
            "topic": self.topic,
            "to": str(self.directory),
            "start": self.start,
            "end": self.end,
            "bucket": duration_text(self.bucket),
        }
