"""The columns of Spark's Kafka sink, and the check of their types.

    key        string or binary                        optional
    value      string or binary                        required
    headers    list<struct<key: string, value: binary>>  optional
    topic      string                                  required without the option `topic`, which takes precedence
    partition  integer                                 optional
    timestamp  timestamp                               optional; not supported by Spark's Kafka sink
    deliver_at timestamp with a time zone, or long     optional; timer topics only, as `timer_columns` says
    timer_id   string or binary                        optional; timer topics only

Other columns are ignored.
"""

from typing import TYPE_CHECKING, Final

from tidemill.batches.row_encoder import headers_type
from tidemill.columnar.timer_columns import DELIVER_AT_COLUMN, TIMER_ID_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = (
    "key", "value", "headers", "topic", "partition", "timestamp", DELIVER_AT_COLUMN, TIMER_ID_COLUMN,
)  # fmt: skip


def check(schema: "pa.Schema", topic: str | None) -> None:
    """
    Check the columns of `schema`.  `topic` is the value of the option `topic`.

    Raise ValueError, with the message of Spark's Kafka sink as the first sentence if that sink makes the same check.
    """
    for column in COLUMNS:
        if len(schema.get_all_field_indices(column)) > 1:
            raise ValueError(f"Column '{column}' is there twice: drop or rename one of them")
    if topic is None and "topic" not in schema.names:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic"
            f"{_near(schema, 'topic')}"
        )
    if "value" not in schema.names:
        raise ValueError(f"Required attribute 'value' not found{_near(schema, 'value')}")
    for column, is_fit, wanted in (
        ("key", _is_content_or_null, "string or binary"),
        ("value", _is_content, "string or binary"),
        ("headers", _is_headers, "array<struct<key:string,value:binary>>"),
        ("partition", _is_integer, "int"),
        ("timestamp", _is_timestamp, "timestamp"),
        (DELIVER_AT_COLUMN, _is_due_time, "timestamp or long"),
        (TIMER_ID_COLUMN, _is_content_or_null, "string or binary"),
        *((("topic", _is_text, "string"),) if topic is None else ()),
    ):
        if column in schema.names and not is_fit(schema.field(column).type):
            raise ValueError(
                f"{column} attribute unsupported type {schema.field(column).type}. {column} must be a(n) {wanted}: "
                f"cast the column, or drop it"
            )
    _check_time_zone(schema)


def _check_time_zone(schema: "pa.Schema") -> None:
    """Raise ValueError if due times have no time zone, so that they would be hours early or late."""
    import pyarrow.types as t

    if DELIVER_AT_COLUMN not in schema.names:
        return
    kind = schema.field(DELIVER_AT_COLUMN).type
    if t.is_timestamp(kind) and kind.tz is None:
        raise ValueError(
            f"{DELIVER_AT_COLUMN} attribute has type {kind}, without a time zone: cast the column to a timestamp with "
            "one; in Spark, to TIMESTAMP, which reads it in the time zone of the session"
        )


def _near(schema: "pa.Schema", wanted: str) -> str:
    """Return a hint if a column's name differs from `wanted` only in case."""
    near = [name for name in schema.names if name.lower() == wanted]
    return (
        f": rename the column {near[0]!r}, because names are case-sensitive" if near else f": add a column '{wanted}'"
    )


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    if t.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def _is_content(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    if t.is_dictionary(kind):
        return _is_content(kind.value_type)
    return _is_text(kind) or bool(
        t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind)
    )


def _is_content_or_null(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    return _is_content(kind) or bool(t.is_null(kind))


def _is_integer(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    return bool(t.is_null(kind) or (t.is_integer(kind) and not t.is_uint64(kind)))


def _is_timestamp(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    return bool(t.is_null(kind) or t.is_timestamp(kind))


def _is_due_time(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    return _is_timestamp(kind) or bool(t.is_int64(kind))


def _is_headers(kind: "pa.DataType") -> bool:
    import pyarrow.types as t

    if t.is_null(kind):
        return True
    if not (t.is_list(kind) or t.is_large_list(kind)) or not t.is_struct(kind.value_type):
        return False
    fields = [kind.value_type.field(index) for index in range(kind.value_type.num_fields)]
    return (
        [field.name for field in fields] == ["key", "value"]
        and _is_text(fields[0].type)
        and _is_content_or_null(fields[1].type)
    )


def sink_rows(rows: "pa.RecordBatch", topic: str | None) -> "pa.RecordBatch":
    """
    Return the columns that the sink writes, in the types that the encoder reads; columns without values are dropped.

    Buffers are shared where the types allow it.  `topic` is the value of the option `topic`.
    """
    import pyarrow as pa

    targets = {
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": headers_type(),
        "topic": pa.string(),
        "partition": pa.int64(),
        TIMER_ID_COLUMN: pa.binary(),
    }
    columns = {}
    for name in COLUMNS:
        if name not in rows.schema.names or (name == "topic" and topic is not None):
            continue
        column = rows.column(name)
        if pa.types.is_null(column.type):
            continue
        if pa.types.is_dictionary(column.type):
            # Cast first, because pyarrow's `take` does not support string views, which Polars uses for its categories.
            column = column.dictionary.cast(targets[name]).take(column.indices)
        columns[name] = column.cast(targets[name]) if name in targets else column
    return pa.RecordBatch.from_pydict(columns)
