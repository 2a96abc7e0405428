"""The columns of the sink: required ones, types, and conversion."""

import pyarrow as pa
import pytest

from tidemill.columnar import sink_schema

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize(
    "fields",
    [
        {"value": pa.binary()},
        {"value": pa.string(), "key": pa.large_string(), "other": pa.float64()},
        {"value": pa.large_binary(), "key": pa.null(), "partition": pa.int64(), "timestamp": pa.timestamp("ns")},
        {"value": pa.binary_view(), "key": pa.string_view(), "headers": HEADERS, "partition": pa.int32()},
        {"value": pa.dictionary(pa.int32(), pa.string()), "headers": pa.null(), "timestamp": pa.timestamp("us", "UTC")},
        {"value": pa.binary(), "deliver_at": pa.timestamp("ns", "Asia/Tokyo"), "timer_id": pa.large_string()},
        {"value": pa.binary(), "deliver_at": pa.int64(), "timer_id": pa.dictionary(pa.int8(), pa.binary())},
        {"value": pa.binary(), "deliver_at": pa.null(), "timer_id": pa.null()},
        {"value": pa.binary(4), "topic": pa.int32()},  # the option takes precedence, so the column is ignored
    ],
)
def test_the_types_of_arrow_programs_are_accepted(fields: dict[str, pa.DataType]):
    sink_schema.check(pa.schema(fields), "t")


@pytest.mark.parametrize(
    ("fields", "topic", "sentence"),
    [
        ({"key": pa.binary()}, "t", "Required attribute 'value' not found: add a column 'value'"),
        ({"Value": pa.binary()}, "t", "rename the column 'Value', because names are case-sensitive"),
        (
            {"value": pa.binary()},
            None,
            "topic option required when no 'topic' attribute is present. Use the topic option",
        ),
        (
            {"value": pa.int32()},
            "t",
            "value attribute unsupported type int32. value must be a(n) string or binary: cast",
        ),
        ({"value": pa.null()}, "t", "value attribute unsupported type null"),
        ({"value": pa.binary(), "key": pa.int64()}, "t", "key must be a(n) string or binary"),
        ({"value": pa.binary(), "topic": pa.binary()}, None, "topic must be a(n) string"),
        ({"value": pa.binary(), "partition": pa.string()}, "t", "partition must be a(n) int"),
        ({"value": pa.binary(), "timestamp": pa.int64()}, "t", "timestamp must be a(n) timestamp"),
        (
            {"value": pa.binary(), "headers": pa.map_(pa.string(), pa.binary())},
            "t",
            "headers must be a(n) array<struct",
        ),
        ({"value": pa.binary(), "headers": pa.list_(pa.string())}, "t", "headers must be a(n) array<struct"),
        (
            {"value": pa.binary(), "deliver_at": pa.int32()},
            "t",
            "deliver_at attribute unsupported type int32. deliver_at must be a(n) timestamp or long: cast the column",
        ),
        ({"value": pa.binary(), "deliver_at": pa.date32()}, "t", "deliver_at must be a(n) timestamp or long"),
        (
            {"value": pa.binary(), "deliver_at": pa.timestamp("us")},
            "t",
            "deliver_at attribute has type timestamp[us], without a time zone: cast the column to a timestamp with one",
        ),
        ({"value": pa.binary(), "timer_id": pa.int64()}, "t", "timer_id must be a(n) string or binary"),
    ],
)
def test_a_wrong_schema_is_refused_in_the_words_of_spark(
    fields: dict[str, pa.DataType], topic: str | None, sentence: str
):
    with pytest.raises(ValueError) as refused:
        sink_schema.check(pa.schema(fields), topic)

    assert sentence in str(refused.value)


def test_a_column_that_is_there_twice_is_refused():
    with pytest.raises(ValueError, match="Column 'value' is there twice"):
        sink_schema.check(pa.schema([("value", pa.binary()), ("value", pa.binary())]), "t")


def test_columns_are_converted_and_others_dropped():
    rows = pa.record_batch(
        {
            "extra": pa.array([1, 2]),
            "value": pa.array(["a", None]).dictionary_encode(),
            "key": pa.array(["x", None], pa.string_view()),
            "partition": pa.array([1, None], pa.int16()),
            "topic": pa.array(["t", "u"], pa.large_string()),
            "headers": pa.nulls(2),
            "deliver_at": pa.array([10**12, None], pa.int64()),
            "timer_id": pa.array(["i", None]).dictionary_encode(),
        }
    )

    converted = sink_schema.sink_rows(rows, None)

    assert {
        "key": [b"x", None],
        "value": [b"a", None],
        "topic": ["t", "u"],
        "partition": [1, None],
        "deliver_at": [10**12, None],
        "timer_id": [b"i", None],
    } == converted.to_pydict()
    assert ["key", "value"] == sink_schema.sink_rows(rows.select(["value", "key", "topic"]), "t").schema.names
