"""Checksums of records, as columns that Spark computes without Python code."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from tidemill.spark.pipelines.audit.options import Ignored

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE, TARGET = 0, 1  # values of the column `side`
_HEADERS = "array<struct<key:string,value:binary>>"
_LOW = 0xFFFFFFFF
_READABLE = "^[ -~]{1,60}$"  # a key that can be shown as text in a table


def labelled(source: "DataFrame | None", target: "DataFrame | None") -> "DataFrame":
    """Return the rows of both sides, with the column `side`.  At least one side has rows."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = ("partition", "offset", "key", "value", "headers", "timestamp")
    sides = [
        rows.select(F.lit(side).alias("side"), *columns)
        for side, rows in ((SOURCE, source), (TARGET, target))
        if rows is not None
    ]
    return sides[0] if len(sides) == 1 else sides[0].unionAll(sides[1])


def checksum(ignored: Collection[Ignored], *more: str) -> "Column":
    """
    Return the checksum of key, value, headers and timestamp, without what is ignored, and of the columns `more`.

    xxhash64 skips nulls, so each nullable value is hashed together with a flag.  Otherwise null could not be
    distinguished from empty, nor a null key with a value from a key with a null value.
    """
    from pyspark.sql import functions as F  # noqa: N812

    parts = [*_flagged("key"), *_flagged("value")]
    if Ignored.HEADERS not in ignored:
        parts.append(_headers())
    if Ignored.TIMESTAMP not in ignored:
        parts.append(F.unix_micros("timestamp"))
    return F.xxhash64(*map(F.col, more), *parts)


def halves(checksum: "Column") -> tuple["Column", "Column"]:
    """
    Return the two halves of a checksum as positive numbers.

    The sums of the halves over many rows are a checksum that does not depend on the order of the rows and includes a
    repeated row as often as it occurs.  A sum of 2 billion halves fits into a long; an overflow raises an error.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return checksum.bitwiseAND(F.lit(_LOW)), F.shiftrightunsigned(checksum, 32)


def described() -> list["Column"]:
    """Return columns for comparing and showing two rows: a short text for each part of a record."""
    from pyspark.sql import functions as F  # noqa: N812

    headers = F.col("headers")
    count = F.coalesce(F.size(headers), F.lit(0))
    return [
        F.when(
            F.col("key").cast("string").rlike(_READABLE), F.concat(F.lit('"'), F.col("key").cast("string"), F.lit('"'))
        )
        .otherwise(_text("key"))
        .alias("key_text"),
        _text("value").alias("value_text"),
        F.when(count <= 0, F.lit("no headers"))
        .otherwise(F.concat(count.cast("string"), F.lit(" headers, "), _digest(_headers())))
        .alias("headers_text"),
        F.unix_micros("timestamp").alias("timestamp_us"),
    ]


def _flagged(name: str) -> tuple["Column", "Column"]:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(name).isNull(), F.col(name)


def _headers() -> "Column":
    """Return the headers with a flag for each null value, for xxhash64.  Null headers equal an empty list."""
    from pyspark.sql import functions as F  # noqa: N812

    headers = F.coalesce(F.col("headers"), F.array().cast(_HEADERS))
    return F.transform(headers, lambda it: F.struct(it["key"], it["value"].isNull(), it["value"]))


def _text(name: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col(name)
    size = F.octet_length(value)
    return (
        F.when(value.isNull(), F.lit("null"))
        .when(size == 0, F.lit("empty"))
        .otherwise(F.concat(size.cast("string"), F.lit(" bytes, "), _digest(value)))
    )


def _digest(value: "Column") -> "Column":
    """Return the checksum of a value in 16 hex digits."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.lower(F.lpad(F.hex(F.xxhash64(value)), 16, "0"))
