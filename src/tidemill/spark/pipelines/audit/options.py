"""The options of the pipeline `audit`."""

from dataclasses import dataclass
from enum import StrEnum

from tidemill.spark.pipelines.frame.option import option
from tidemill.spark.pipelines.frame.positions import EXAMPLES, parse_position


class By(StrEnum):
    """How records of the two sides are matched: by offset or by key."""

    OFFSET = "offset"
    KEY = "key"


class Ignored(StrEnum):
    """A part of the records whose differences are ignored."""

    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    ORDER = "order"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    topic: str = option("The topic that is right.", metavar="TOPIC")
    target: str | None = option("The topic to compare with it.", default=None, metavar="TOPIC")
    archive: str | None = option("The archive to compare with it, instead of a topic.", default=None, metavar="DIR")
    by: By = option(
        "Compare records with the same offset, or, for a topic whose records were written again, with the same key.",
        default=By.OFFSET,
    )
    ignore: tuple[Ignored, ...] = option("What may differ; order: of the records of a key.", default=())
    range_records: int = option("By offset: the offsets of a range, which has one checksum.", default=100_000)
    differences: int = option("The most differences to show.", default=20)
    start: str = option(f"Where the comparison begins: {EXAMPLES}.", default="earliest", metavar="POSITION")
    end: str = option("Where it ends, exclusive.", default="latest", metavar="POSITION")
    target_start: str = option("By key: where it begins in the target topic.", default="earliest", metavar="POSITION")
    target_end: str = option("By key: where it ends in the target topic.", default="latest", metavar="POSITION")
    complete: bool = option(
        "Records that are not archived yet are differences; otherwise they are only counted.", default=False
    )

    def __post_init__(self) -> None:
        if (self.target is None) == (self.archive is None):
            given = "neither is" if self.target is None else "both are"
            raise ValueError(f"target and archive: {given} given; name either a target topic or an archive")
        if self.target == self.topic:
            raise ValueError(f"target={self.target} is the topic itself; name another topic")
        for name, value in (("range_records", self.range_records), ("differences", self.differences)):
            if value < 1:
                raise ValueError(f"{name}={value} is below 1; write at least 1")
        for name in ("start", "end"):
            parse_position(self.topic, name, getattr(self, name))
        for name, default in (("target_start", "earliest"), ("target_end", "latest")):
            position = getattr(self, name)
            if position != default and (self.by is By.OFFSET or self.target is None):
                raise ValueError(f"{name}={position}: use it with a target topic and by=key only, or leave it out")
            parse_position(self.target or self.topic, name, position)
        if self.by is By.OFFSET and Ignored.ORDER in self.ignore:
            raise ValueError("ignore=order: the order is that of the offsets; use it with by=key, or leave it out")
        if self.complete and (self.archive is None or self.by is By.KEY):
            raise ValueError("complete=true: use it with an archive and by=offset only, or leave it out")

    @property
    def identity(self) -> dict[str, str]:
        """The options that must be the same in every run that uses the same state directory."""
        return {
            "topic": self.topic,
            "target": self.target or "",
            "archive": self.archive or "",
            "by": self.by.value,
            "ignore": ",".join(sorted(it.value for it in self.ignore)),
            "range_records": str(self.range_records),
            "start": self.start,
            "end": self.end,
            "target_start": self.target_start,
            "target_end": self.target_end,
            "complete": str(self.complete).lower(),
        }
