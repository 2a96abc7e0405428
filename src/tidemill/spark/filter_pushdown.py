"""Translates the filters that Spark pushes down to a reader with the option filterPushdown.

The option is off by default, because Spark keeps one plan of a read per DataFrame: the filters that it has pushed for
one query stay in the plan, and every later read of the same DataFrame or view lacks the rows that they exclude.

Spark pushes filters down only if `spark.sql.python.filterPushdown.enabled` is set, and refuses a reader that overrides
`pushFilters` if it is not.  PushFilters therefore takes the place of the method in an instance, where Spark takes it
for the method that is not overridden.
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
    """The `pushFilters` of one reader."""

    __func__ = staticmethod(DataSourceReader.pushFilters)  # what Spark compares with the method of its base class

    def __init__(self, reader: Filtered) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Apply what helps to read less, and return the filters that Spark must still evaluate."""
        self._reader.row_filter, left = translated(filters)
        return left


def translated(filters: Iterable[Filter]) -> tuple[RowFilter, list[Filter]]:
    """Return a RowFilter, and the filters that it does not apply to every row."""
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
        return None  # Unlike other comparisons, it is true for null.
    return Condition(column, comparison, tuple(value) if comparison == IN else value, is_negated)
