"""Conditions that make a read smaller exclude only rows that the query does not need."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.columnar.row_filter import IN, IS_NULL, Condition, RowFilter, Use, use_of
from tidemill.model.partition import TopicPartition

MOMENT = datetime(2013, 1, 1, 10, 0, 0, 123_456, tzinfo=UTC)
OFFSETS = st.integers(-5, 25)


def filtered(*conditions: Condition) -> RowFilter:
    return RowFilter(conditions)


@pytest.mark.parametrize(
    ("condition", "use"),
    [
        (Condition("partition", "=", 1), Use.ALL),
        (Condition("partition", IN, (1, 2), is_negated=True), Use.ALL),
        (Condition("topic", "=", "t"), Use.ALL),
        (Condition("offset", ">=", 3), Use.ALL),
        (Condition("offset", IN, (3, 9)), Use.SOME),
        (Condition("offset", "=", 3, is_negated=True), Use.NONE),
        (Condition("timestamp", ">=", MOMENT), Use.SOME),
        (Condition("timestamp", "<", MOMENT), Use.NONE),
        (Condition("timestamp", ">", MOMENT, is_negated=True), Use.NONE),
        (Condition("timestamp", ">", MOMENT.replace(tzinfo=None)), Use.NONE),
        (Condition("key", "=", b"k"), Use.ALL),
        (Condition("key", IS_NULL), Use.ALL),
        (Condition("offset", IS_NULL, is_negated=True), Use.ALL),
        (Condition("offset", IS_NULL), Use.NONE),
        (Condition("key", "<", b"k"), Use.NONE),
        (Condition("value", "=", b"v"), Use.NONE),
        (Condition("offset", "=", None), Use.NONE),
        (Condition("partition", IN, (1, None)), Use.NONE),
    ],
)
def test_a_condition_is_used_as_far_as_it_is_exact(condition, use):
    """
    The source applies a condition itself only if it can apply it to every row; otherwise Spark does.  An upper bound on
    the timestamp is not used, and a lower bound only moves the start of the read.
    """
    assert use is use_of(condition)


def test_conditions_select_partitions():
    """
    Conditions on topic and partition select partitions; conditions on the key do not.
    """
    chosen = filtered(
        Condition("topic", "=", "t"),
        Condition("topic", IS_NULL, is_negated=True),
        Condition("partition", IN, (1, 2), is_negated=True),
        Condition("key", "=", b"k"),
    )

    assert [True, False, False] == [
        chosen.selects(TopicPartition(topic, number)) for topic, number in (("t", 0), ("t", 1), ("u", 0))
    ]


@settings(deadline=None)
@given(OFFSETS, st.lists(OFFSETS, min_size=1, max_size=3), st.sampled_from(["=", "<", "<=", ">", ">=", IN]))
def test_clipping_keeps_every_offset_that_fulfils_the_condition(value, values, comparison):
    """
    Clipping a range keeps every offset that satisfies a condition and, unless the condition is a list, no other offset.
    """
    condition = Condition("offset", comparison, tuple(values) if comparison == IN else value)
    wanted = {
        "=": lambda offset: offset == value,
        "<": lambda offset: offset < value,
        "<=": lambda offset: offset <= value,
        ">": lambda offset: offset > value,
        ">=": lambda offset: offset >= value,
        IN: lambda offset: offset in values,
    }[comparison]

    kept = range(*filtered(condition).clipped(0, 20))

    needed = [offset for offset in range(20) if wanted(offset)]
    assert set(needed) <= set(kept)
    assert comparison == IN or needed == [*kept]


@pytest.mark.parametrize(
    ("condition", "milliseconds"),
    [
        (Condition("timestamp", ">=", MOMENT), 1_357_034_400_124),
        (Condition("timestamp", ">", MOMENT), 1_357_034_400_124),
        (Condition("timestamp", ">=", MOMENT.replace(microsecond=5_000)), 1_357_034_400_005),
        (Condition("timestamp", ">", MOMENT.replace(microsecond=5_000)), 1_357_034_400_006),
        (Condition("timestamp", IN, (MOMENT, MOMENT.replace(microsecond=0))), 1_357_034_400_000),
        (Condition("timestamp", IS_NULL, is_negated=True), None),
    ],
)
def test_the_start_in_time_is_a_whole_millisecond(condition, milliseconds):
    """
    The lower bound of the timestamp is the first millisecond that satisfies the condition, because the timestamps of
    records have no fractions of a millisecond.
    """
    earlier = Condition("timestamp", ">", MOMENT - timedelta(days=1))

    assert milliseconds == filtered(condition).timestamp_ms_min
    assert (milliseconds or 1_356_948_000_124) == filtered(earlier, condition).timestamp_ms_min


@pytest.mark.parametrize(
    ("conditions", "keys"),
    [
        ([], [b"a", None, b"b", b""]),
        ([Condition("key", "=", b"a")], [b"a"]),
        ([Condition("key", IN, (b"a", b"")), Condition("key", "=", b"a", is_negated=True)], [b""]),
        ([Condition("key", "=", b"a", is_negated=True)], [b"b", b""]),
        ([Condition("key", IS_NULL)], [None]),
        ([Condition("key", IS_NULL, is_negated=True)], [b"a", b"b", b""]),
    ],
)
def test_rows_are_selected_by_key_as_in_sql(conditions, keys):
    """
    A null key satisfies only IS NULL, as in SQL.
    """
    rows = pa.record_batch({"offset": pa.array(range(4)), "key": pa.array([b"a", None, b"b", b""], pa.binary())})

    assert keys == filtered(*conditions).rows_with_key(rows).column("key").to_pylist()
