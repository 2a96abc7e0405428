"""
Spark's filters become conditions of a RowFilter; Spark itself evaluates the filters that these do not fully cover.
"""

import pickle
from datetime import UTC, datetime

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    Not,
    StringContains,
)

from tidemill.columnar import source_options
from tidemill.columnar.row_filter import IN, IS_NULL, Condition
from tidemill.spark import row_schema
from tidemill.spark.batch_reader import BatchReader
from tidemill.spark.filter_pushdown import translated

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def reader(*, is_pushed_down: bool = True) -> BatchReader:
    pushdown = {"filterpushdown": str(is_pushed_down).lower()}
    options = source_options.for_batch({"kafka.bootstrap.servers": "b:9092", "subscribe": "t", **pushdown})
    return BatchReader(options, row_schema.full(has_headers=False))


def test_filters_that_were_applied_exactly_are_not_returned():
    """
    Filters that were applied exactly are not returned to Spark.  All others are returned, even if they limit what is
    read.
    """
    exact = [
        In(("partition",), (0, 1)),
        GreaterThanOrEqual(("OFFSET",), 3),
        Not(EqualTo(("key",), b"k")),
        IsNotNull(("key",)),
    ]
    others = [
        GreaterThanOrEqual(("timestamp",), NOON),
        LessThan(("timestamp",), NOON),
        StringContains(("topic",), "x"),
        Not(EqualNullSafe(("key",), b"k")),
        EqualTo(("headers", "key"), "a"),
        EqualTo(("unknown",), 1),
    ]

    row_filter, left = translated([*exact, *others])

    assert others == left
    assert (
        Condition("partition", IN, (0, 1)),
        Condition("offset", ">=", 3),
        Condition("key", "=", b"k", is_negated=True),
        Condition("key", IS_NULL, is_negated=True),
        Condition("timestamp", ">=", NOON),
    ) == row_filter.conditions


def test_spark_takes_the_method_for_one_that_is_not_overridden():
    """
    Spark compares `pushFilters.__func__` with the method of the base class, and refuses a reader that overrides it
    unless a setting of the session allows it.
    """
    pushed = reader().pushFilters

    assert DataSourceReader.pushFilters is getattr(pushed, "__func__", None)


def test_without_the_option_spark_evaluates_every_filter():
    """
    Spark keeps pushed filters for later queries of the same DataFrame, so no filter is pushed down unless the user
    enables it.
    """
    filters = [EqualTo(("key",), b"k"), EqualTo(("partition",), 1)]
    planned = reader(is_pushed_down=False)

    assert filters == [*planned.pushFilters(filters)]
    assert () == planned.row_filter.conditions


def test_pushed_filters_travel_to_executors():
    """
    The filters that were pushed down are pickled with the reader, because executors apply the filters on keys.
    """
    planned = reader()
    left = [*planned.pushFilters([EqualTo(("key",), b"k")])]

    travelled = pickle.loads(pickle.dumps(planned))  # noqa: S301 - our own bytes

    assert [] == left
    assert (Condition("key", "=", b"k"),) == travelled.row_filter.conditions
