"""The options of a replay."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from tidemill.spark.pipelines.frame.option import option
from tidemill.spark.pipelines.frame.positions import parse_position
from tidemill.spark.pipelines.frame.quantity import parse_duration

TO_NOW: Final = "to-now"


def parse_shift(text: str) -> timedelta | Literal["to-now"]:
    """Parse a duration such as `7d` or `-90m`, or `to-now`.  Raise ValueError for other text."""
    stripped = text.strip()
    if stripped == TO_NOW:
        return TO_NOW
    if stripped.startswith("-"):
        return -parse_duration(stripped[1:])
    return parse_duration(stripped.removeprefix("+"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What is replayed, where it is written, and how fast."""

    topic: str = option("The topic that is read.")
    to: str = option("The topic that is written; it must exist.")
    start: str = option(
        "Where the range begins: earliest, a time such as 2013-01-01T00:00:00Z, -10m, -1000, group:NAME, or offsets "
        'by partition, {"0": 23}.',
        default="earliest",
        metavar="POSITION",
    )
    end: str | None = option(
        "Where the range ends, as start, or latest; the default is the end of the topic when the first run starts, and "
        "no end for a continuous run.",
        default=None,
        metavar="POSITION",
    )
    filter: str | None = option(
        "An SQL condition on key, value, topic, partition, offset, timestamp and headers; other records are left out.",
        default=None,
        metavar="SQL",
    )
    into_timer: bool = option(
        "Write to a timer topic, where each record waits until it is due: at its shifted timestamp.", default=False
    )
    shift: timedelta | Literal["to-now"] = option(
        "A duration that is added to the timestamps, such as 7d or -90m; with into_timer also to-now: the first record "
        "is due now.",
        default=timedelta(0),
        parse=parse_shift,
        metavar="DURATION",
    )
    speed: float | None = option(
        "Keep the distances of the timestamps, divided by this: 2.0 is twice as fast as it was; the default is as fast "
        "as possible, and 1.0 with into_timer.",
        default=None,
        metavar="FACTOR",
    )
    rate_records: int | None = option("Write at most so many records a second.", default=None, metavar="RECORDS")
    keep_partitions: bool = option(
        "Write each record to the partition that it was read from; the default routes by key, as Java's producer does.",
        default=False,
    )
    allow_expired: bool = option("Write even if the topic's retention will remove records at once.", default=False)
    step_records: int = option(
        "The most records of a step; a run that resumes repeats at most one step.", default=100_000, metavar="RECORDS"
    )

    def __post_init__(self) -> None:
        parse_position(self.topic, "start", self.start)
        if self.end is not None:
            parse_position(self.topic, "end", self.end)
        if self.speed is not None and not 0 < self.speed < float("inf"):
            raise ValueError(f"speed={self.speed} is not above 0: write for example 2.0, or leave it out")
        if self.shift == TO_NOW and not self.into_timer:
            raise ValueError(
                f"shift={TO_NOW} says when records of a timer topic are due: set into_timer, or write a duration, such "
                "as 7d"
            )
        for name, value in (("rate_records", self.rate_records), ("step_records", self.step_records)):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value} is not above 0: write a whole number from 1")

    @property
    def shift_by(self) -> timedelta:
        """The shift if it is a duration, as it is in every replay without `into_timer`."""
        assert isinstance(self.shift, timedelta), f"shift={self.shift} is not a duration"
        return self.shift

    @property
    def paced_speed(self) -> float | None:
        """The speed at which records are written.  A timer topic keeps the distances itself."""
        return None if self.into_timer else self.speed

    def identity(self, *, is_continuous: bool) -> dict[str, str]:
        """
        Return the options that must be the same in every run with the same state directory.

        The speed may differ, except with `into_timer`, where it says when records are due.
        """
        shift = TO_NOW if self.shift == TO_NOW else f"{self.shift_by // timedelta(milliseconds=1)}ms"
        delayed = {"into_timer": "true", "speed": str(float(self.speed or 1.0))} if self.into_timer else {}
        return {
            "topic": self.topic,
            "to": self.to,
            "start": self.start,
            "end": self.end or ("(none)" if is_continuous else "latest"),
            "filter": self.filter or "",
            "shift": shift,
            "keep_partitions": str(self.keep_partitions).lower(),
            **delayed,
        }
