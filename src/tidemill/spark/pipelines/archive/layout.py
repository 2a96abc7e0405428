"""The directory layout of an archive: how rows are partitioned, and the columns of the files."""

from enum import StrEnum


class PartitionBy(StrEnum):
    """The part of the record timestamp, in UTC, by which files are partitioned."""

    HOUR = "date,hour"
    DATE = "date"
    NONE = "none"

    @property
    def columns(self) -> tuple[str, ...]:
        """The partition columns, which become directories such as `date=2013-01-01/hour=05`."""
        return () if self is PartitionBy.NONE else tuple(self.value.split(","))


SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns of every file: those of `format("tidemill")`."""

_TYPES = {"date": "DATE", "hour": "INT"}


def schema_with_directories(partition_by: str) -> str:
    """Return the columns of an archive that Spark reads: those of its files, then those of its directories."""
    return ", ".join([SCHEMA, *(f"{name} {_TYPES[name]}" for name in PartitionBy(partition_by).columns)])
