"""The options of the pipeline `audit`."""

from dataclasses import dataclass
from enum import StrEnum

from tidemill.spark.pipelines.frame.option import option

_POSITION = "earliest, latest, JSON, -10m (that long ago), -1000 (that many before the end) or group:NAME."


class By(StrEnum):
    """What the records of both sides have in common."""

    OFFSET = "offset"
    KEY = "key"


class Ignored(StrEnum):
    """What may differ."""

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
    starting_offsets: str = option(f"Where the comparison begins: {_POSITION}", default="earliest", metavar="POSITION")
    ending_offsets: str = option(f"Where the comparison ends: {_POSITION}", default="latest", metavar="POSITION")
    target_starting_offsets: str = option(
        "By key: where it begins in the target.", default="earliest", metavar="POSITION"
    )
    target_ending_offsets: str = option("By key: where it ends in the target.", default="latest", metavar="POSITION")
    complete: bool = option(
        "Records that are not archived yet are differences; otherwise they are only counted.", default=False
    )

    def __post_init__(self) -> None:
        if (self.target is None) == (self.archive is None):
            given = "neither" if self.target is None else "both"
            raise ValueError(f"target and archive: {given} is given; name either a target topic or an archive")
        if self.target == self.topic:
            raise ValueError(f"target={self.target} is the topic itself; name another topic")
        for name, value in (("range_records", self.range_records), ("differences", self.differences)):
            if value < 1:
                raise ValueError(f"{name}={value} is below 1; write at least 1")
        if self.by is By.OFFSET:
            for name in ("target_starting_offsets", "target_ending_offsets"):
                if getattr(self, name) != ("earliest" if "starting" in name else "latest"):
                    raise ValueError(f"{name}={getattr(self, name)}: offsets are compared; use it with by=key")
            if Ignored.ORDER in self.ignore:
                raise ValueError("ignore=order: the order is that of the offsets; use it with by=key")
        if self.complete and (self.archive is None or self.by is By.KEY):
            raise ValueError("complete=true: use it with an archive and by=offset only")
        if self.archive is not None and self.by is By.KEY and self.target_starting_offsets != "earliest":
            position = self.target_starting_offsets
            raise ValueError(f"target_starting_offsets={position}: an archive is compared as a whole; leave it out")

    @property
    def identity(self) -> dict[str, str]:
        """What must be the same in every run with one state directory."""
        return {
            "topic": self.topic,
            "target": self.target or "",
            "archive": self.archive or "",
            "by": self.by.value,
            "ignore": ",".join(sorted(it.value for it in self.ignore)),
            "range_records": str(self.range_records),
            "starting_offsets": self.starting_offsets,
            "ending_offsets": self.ending_offsets,
            "target_starting_offsets": self.target_starting_offsets,
            "target_ending_offsets": self.target_ending_offsets,
            "complete": str(self.complete).lower(),
        }
