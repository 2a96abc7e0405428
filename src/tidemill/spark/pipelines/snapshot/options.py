"""The options of a snapshot."""

from dataclasses import dataclass
from datetime import timedelta

from tidemill.spark.pipelines.frame.option import option
from tidemill.spark.pipelines.frame.quantity import parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """Which topic is read, and where its snapshot is stored."""

    topic: str = option("The topic whose newest values are kept.")
    to: str = option("The directory of the snapshot, which the driver and all executors see.", metavar="DIR")
    headers: bool = option("Keep the headers of the records, too.", default=False)
    full: bool = option(
        "Read the whole topic instead of what is new since the last version; readers see the last version until then.",
        default=False,
    )
    step_records: int = option(
        "The most records that are read for a version; a run that resumes reads those of one version again.",
        default=20_000_000,
        metavar="RECORDS",
    )
    keep_versions: int = option(
        "Versions that are kept, so that queries which read an older one can end.", default=2, metavar="N"
    )
    interval: timedelta = option(
        "The time between two versions of a continuous run.",
        default=timedelta(minutes=1),
        parse=parse_duration,
        metavar="DURATION",
    )

    def __post_init__(self) -> None:
        if "://" in self.to:
            raise ValueError(f"to={self.to} is an address: name a directory that the driver and all executors see")
        for name, value in (("step_records", self.step_records), ("keep_versions", self.keep_versions)):
            if value < 1:
                raise ValueError(f"{name}={value} is not above 0: write a whole number from 1")
