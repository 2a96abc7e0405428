"""Converts rows to records: key, value, headers, timestamp and partition, as Spark expressions."""

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidemill.spark.pipelines.backfill.options import JSON, BackfillOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

KEY, VALUE, TIMESTAMP, PARTITION = "key", "value", "timestamp", "partition"
_NO_NULL_IS_LEFT_OUT: Final = {"ignoreNullFields": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """
    The Spark expressions for the columns of a record.

    Each header has its own column, because with nested columns Spark measures the Arrow batch again after each row.
    """

    options: BackfillOptions
    schema: "StructType"
    partition_count: int

    def check(self) -> None:
        """Raise ValueError for a column that does not exist or has the wrong type."""
        options = self.options
        for name in options.key_columns:
            self._refuse_nested("key", name)
        for name in options.header_columns:
            self._refuse_nested("headers", name)
        if options.value != JSON and (kind := self._type("value", options.value).simpleString()) not in _TEXT:
            raise ValueError(
                f"value={options.value} has the type {kind}: choose a string or binary column, or `json` for the row"
            )
        if (kind := self._type("timestamp", options.timestamp).simpleString()) not in (*_TIMES, *_NUMBERS):
            raise ValueError(
                f"timestamp={options.timestamp} has the type {kind}: it must be a timestamp, a date, or milliseconds "
                "since 1970; for CSV and JSON files, give its type in schema"
            )
        if options.partition is not None:
            kind = self._type("partition", options.partition).simpleString()
            if kind not in _NUMBERS:
                raise ValueError(f"partition={options.partition} has the type {kind}: choose a column of whole numbers")

    def names(self) -> list[str]:
        """Return the names of the columns of a record."""
        return [KEY, VALUE, TIMESTAMP, PARTITION, *header_names(len(self.options.header_columns))]

    def record_schema(self) -> str:
        """Return the schema of a record in Spark's DDL syntax."""
        headers = "".join(f", {name} BINARY" for name in header_names(len(self.options.header_columns)))
        return f"{KEY} BINARY, {VALUE} BINARY, {TIMESTAMP} TIMESTAMP, {PARTITION} INT{headers}"

    def of(self, rows: "DataFrame", *others: str) -> "DataFrame":
        """Convert rows to records, and keep the columns `others` of the rows."""
        from pyspark.sql import functions as f

        # The source columns may have the same names as the record columns, so all record columns are created in one
        # step.
        made = rows.select(
            self._key().alias(KEY),
            self._value().alias(VALUE),
            self._timestamp().alias(TIMESTAMP),
            *(
                _column(name).cast("string").cast("binary").alias(header)
                for name, header in zip(
                    self.options.header_columns, header_names(len(self.options.header_columns)), strict=True
                )
            ),
            self._chosen_partition().alias(_CHOSEN),
            *(f.col(other) for other in others),
        )
        return made.select(
            KEY,
            VALUE,
            TIMESTAMP,
            self._partition().alias(PARTITION),
            *header_names(len(self.options.header_columns)),
            *others,
        )

    def _key(self) -> "Column":
        from pyspark.sql import functions as f

        names = self.options.key_columns
        if not names:
            return f.lit(None).cast("binary")
        if len(names) == 1:
            return _as_bytes(names[0], self._type("key", names[0]))
        return f.to_json(f.struct(*map(_column, names)), _NO_NULL_IS_LEFT_OUT).cast("binary")

    def _value(self) -> "Column":
        from pyspark.sql import functions as f

        if self.options.value == JSON:
            return f.to_json(f.struct(*map(_column, self.schema.names)), _NO_NULL_IS_LEFT_OUT).cast("binary")
        return _column(self.options.value).cast("binary")

    def _timestamp(self) -> "Column":
        from pyspark.sql import functions as f

        column = _column(self.options.timestamp)
        if self._type("timestamp", self.options.timestamp).simpleString() in _NUMBERS:
            return f.timestamp_millis(column.cast("bigint"))
        return column.cast("timestamp")

    def _chosen_partition(self) -> "Column":
        from pyspark.sql import functions as f

        return (
            f.lit(None).cast("int") if self.options.partition is None else _column(self.options.partition).cast("int")
        )

    def _partition(self) -> "Column":
        """
        Return the partition of each row.

        Rows that have neither a partition nor a key are distributed by a hash, so that a retry chooses the same
        partitions.
        """
        from pyspark.sql import functions as f

        scattered = f.pmod(f.xxhash64(TIMESTAMP, VALUE), f.lit(self.partition_count)).cast("int")
        if not self.options.key_columns:
            return f.coalesce(f.col(_CHOSEN), scattered)
        return f.coalesce(f.col(_CHOSEN), _hashed(f.col(KEY), self.partition_count), scattered)

    def _type(self, option: str, name: str) -> "DataType":
        if name not in self.schema.names:
            near = difflib.get_close_matches(name, self.schema.names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"they have {', '.join(self.schema.names)}"
            raise ValueError(f"{option}={name}: the files have no column of this name; {hint}")
        return self.schema[name].dataType

    def _refuse_nested(self, option: str, name: str) -> None:
        kind = self._type(option, name).simpleString()
        if kind.startswith(("array", "map", "struct", "variant")):
            raise ValueError(f"{option}={name} has the type {kind}: choose a column without nested values")


_CHOSEN: Final = "_tidemill_partition"
_TEXT: Final = ("string", "binary")
_TIMES: Final = ("timestamp", "timestamp_ntz", "date")
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")


def header_names(count: int) -> list[str]:
    """Return the names of the columns that contain the header values."""
    return [f"header_{index}" for index in range(count)]


def record_bytes(header_count: int) -> "Column":
    """Return the total size of the key, value and header values of a record, in bytes."""
    from pyspark.sql import functions as f

    total = f.lit(0).cast("bigint")
    for name in (KEY, VALUE, *header_names(header_count)):
        total = total + f.coalesce(f.octet_length(name), f.lit(0))
    return total


def _column(name: str) -> "Column":
    from pyspark.sql import functions as f

    return f.col("`" + name.replace("`", "``") + "`")


def _as_bytes(name: str, kind: "DataType") -> "Column":
    column = _column(name)
    return column if kind.simpleString() == "binary" else column.cast("string").cast("binary")


def _hashed(key: "Column", partition_count: int) -> "Column":
    """Return the partition that the key's hash selects, as in Java's producer; null for a null key."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import IntegerType

    def partitions(keys: pa.Array) -> pa.Array:
        from tidemill.columnar.key_partitions import key_partitions

        return key_partitions(keys, partition_count)

    found: Column = arrow_udf(partitions, IntegerType())(key)  # type: ignore[call-overload]  # its hints lack this form
    return found
