"""Translates the filters that Spark pushes down to a reader with the option filterPushdown.

The option is off by default, because Spark keeps one read plan per DataFrame: the filters that Spark pushes down for
one query stay in that plan, so every later read of the same DataFrame or view lacks the rows that these filters
exclude.

Spark pushes filters down only if `spark.sql.python.filterPushdown.enabled` is set; if it is not set, Spark refuses a
reader class that overrides `pushFilters`.  The reader class therefore does not override the method.  Instead, a
PushFilters object replaces it on a reader instance, which Spark does not recognize as an override.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, Filter

from tidemill.columnar import row_filter
from tidemill.columnar.row_filter import IN, IS_NULL, Condition, RowFilter, Use
from tidemill.spark.row_schema import column_named

_COMPARISONS: Final = {
    datasource.EqualTo: "=",
    datasource.EqualNullSafe: "=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.In: IN,
}


class Filtered(Protocol):
    """A reader whose rows can be filtered."""

    row_filter: RowFilter


class PushFilters:
    """A callable that replaces the method `pushFilters` of one reader instance."""

    # Spark regards `pushFilters` as an override unless this attribute is DataSourceReader's own method.
    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: Filtered) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Apply the filters that reduce what is read, and return the filters that Spark must still evaluate."""
        self._reader.row_filter, left = translated(filters)
        return left


def translated(filters: Iterable[Filter]) -> tuple[RowFilter, list[Filter]]:
    """
    Return a RowFilter, and the filters that Spark must still evaluate on the rows that the RowFilter lets through.
    """
    used, left = [], []
    for one in filters:
        condition = _condition(one)
        use = Use.NONE if condition is None else row_filter.use_of(condition)
        if condition is not None and use is not Use.NONE:
            used.append(condition)
        if use is not Use.ALL:
            left.append(one)
    return RowFilter(tuple(used)), left


def _condition(pushed: Filter) -> Condition | None:
    is_negated = isinstance(pushed, datasource.Not)
    if isinstance(pushed, datasource.Not):
        pushed = pushed.child
    attribute: tuple[str, ...] = getattr(pushed, "attribute", ())
    column = column_named(attribute[0]) if len(attribute) == 1 else None
    if column is None:
        return None
    if isinstance(pushed, datasource.IsNull | datasource.IsNotNull):
        return Condition(column, IS_NULL, None, is_negated != isinstance(pushed, datasource.IsNotNull))
    comparison = _COMPARISONS.get(type(pushed))
    if comparison is None:
        return None
    value = pushed.value  # type: ignore[attr-defined]  # every filter in _COMPARISONS has one
    if isinstance(pushed, datasource.EqualNullSafe) and is_negated:
        return None  # Unlike the other comparisons, a negated EqualNullSafe is true for null.
    return Condition(column, comparison, tuple(value) if comparison == IN else value, is_negated)
