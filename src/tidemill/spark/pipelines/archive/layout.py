"""How an archive divides its rows among directories."""

from enum import StrEnum


class PartitionBy(StrEnum):
    """The time of the record, in UTC, by which files are divided."""

    HOUR = "date,hour"
    DATE = "date"
    NONE = "none"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the division, which are directories such as `date=2013-01-01/hour=05`."""
        return () if self is PartitionBy.NONE else tuple(self.value.split(","))


SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns of every file, which are those of `format("tidemill")`."""

_TYPES = {"date": "DATE", "hour": "INT"}


def schema_with_directories(partition_by: str) -> str:
    """Return the columns of an archive that Spark reads: those of its files, then those of its directories."""
    return ", ".join([SCHEMA, *(f"{name} {_TYPES[name]}" for name in PartitionBy(partition_by).columns)])
