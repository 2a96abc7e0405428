"""The columns of Spark's Kafka source, and those of dead letters, of share groups and of records that wait.

Columns that are not in the user's schema are not decoded.
"""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidemill.columnar import acquired_rows, waiting_columns
from tidemill.columnar.source_options import SourceOptions
from tidemill.columnar.timer_columns import DELIVER_AT_COLUMN, TIMER_ID_COLUMN

HEADERS = "headers"

_HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: _HEADERS_TYPE,
}
_LETTER_COLUMNS: dict[str, DataType] = {
    "cause": StringType(),
    "attempts": IntegerType(),
    "origin_topic": StringType(),
    "origin_partition": IntegerType(),
    "origin_offset": LongType(),
    "origin_group": StringType(),
}
_SHARE_COLUMNS: dict[str, DataType] = {acquired_rows.DELIVERY_COUNT: IntegerType(), acquired_rows.RECEIPT: StringType()}
_WAITING_COLUMNS: dict[str, DataType] = {
    waiting_columns.ARRIVAL_COLUMN: LongType(),
    DELIVER_AT_COLUMN: TimestampType(),
    TIMER_ID_COLUMN: BinaryType(),
}
_WHILE_WAITING: dict[str, DataType] = {
    **{name: kind for name, kind in _COLUMNS.items() if name not in waiting_columns.RELEASED_COLUMNS},
    **_WAITING_COLUMNS,
}
_BY_LOWER_NAME = {name.lower(): name for name in (*_COLUMNS, *_LETTER_COLUMNS)}


def full(
    *, has_headers: bool, has_letters: bool = False, is_share: bool = False, is_waiting: bool = False
) -> StructType:
    """Return the schema of a read for which the user specifies no schema."""
    columns = (
        _WHILE_WAITING
        if is_waiting
        else _COLUMNS | (_LETTER_COLUMNS if has_letters else {}) | (_SHARE_COLUMNS if is_share else {})
    )
    return StructType([StructField(n, t) for n, t in columns.items() if has_headers or n != HEADERS])


def column_named(name: str) -> str | None:
    """Return the source's spelling of this column name, ignoring case; None if there is no such column."""
    return _BY_LOWER_NAME.get(name.lower())


def chosen_columns(
    schema: StructType,
    *,
    has_headers: bool,
    has_letters: bool = False,
    is_share: bool = False,
    is_waiting: bool = False,
) -> tuple[str, ...]:
    """
    Return the columns of `schema`, in that order and in the source's spelling; case is ignored.

    Raise ValueError for a column that is unknown, repeated or of another type, and for one that an option must add:
    `headers` without `has_headers`, a column of dead letters without `has_letters`, or one of records that wait without
    `is_waiting`.
    """
    known = _WHILE_WAITING if is_waiting else _COLUMNS | (_SHARE_COLUMNS if is_share else _LETTER_COLUMNS)
    by_lower_name = {name.lower(): name for name in known}
    columns = []
    for field in schema.fields:
        column = by_lower_name.get(field.name.lower())
        if column is None and is_waiting:
            raise ValueError(waiting_columns.problem(column_named(field.name) or field.name, known))
        if column is None:
            waiting_columns.refuse([field.name])
            raise ValueError(f"column {field.name!r} does not exist in the Tidemill source: use {', '.join(known)}")
        if column == HEADERS and not has_headers:
            raise ValueError("column 'headers' requires option includeHeaders=true")
        if column in _LETTER_COLUMNS and not has_letters:
            raise ValueError(f"column {column!r} requires option records=dead-letters")
        if _without_nullability(field.dataType) != _without_nullability(known[column]):
            raise ValueError(
                f"column {field.name!r} has type {known[column].simpleString()}, "
                f"not {field.dataType.simpleString()}: cast it after reading"
            )
        columns.append(column)
    if len(set(columns)) < len(columns):
        raise ValueError(f"the schema has a column twice: {', '.join(columns)}")
    return tuple(columns)


def columns_for(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    """Return the columns of `schema` for a read with these options.  Raise the errors of `chosen_columns`."""
    return chosen_columns(
        schema, has_headers=options.has_headers, has_letters=options.has_letters, is_waiting=options.is_waiting
    )


def _without_nullability(data_type: DataType) -> str:
    return data_type.simpleString()
