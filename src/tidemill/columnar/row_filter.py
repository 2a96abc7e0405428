"""Filter conditions that reduce how much a query reads: fewer partitions, fewer offsets, fewer rows.

Partitions and offsets are selected when the read is planned.  A lower bound of the timestamp moves the start of each
partition to the first record at or after it; later records may still be older, because timestamps need not ascend.  An
upper bound is therefore not used.  Conditions on the key select rows after decoding, and never entire partitions,
because producers differ in how they choose the partition of a key.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidemill.model.partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

IS_NULL: Final = "is null"
IN: Final = "in"
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    IN: lambda actual, values: actual in values,
}
_TYPES: Final[Mapping[str, type]] = {
    "topic": str,
    "partition": int,
    "offset": int,
    "timestamp": datetime,
    "key": bytes,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Condition(NamedTuple):
    """A comparison of a column with a value that is not None, or with a tuple of such values (IN); or IS_NULL."""

    column: str
    comparison: str  # a key of _COMPARISONS, or IS_NULL
    value: Any = None
    is_negated: bool = False


class Use(Enum):
    """How far a RowFilter can apply a condition."""

    NONE = "nothing"
    SOME = "some rows that it excludes are not read"
    ALL = "no row that it excludes is returned"


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions that every row needed by the query fulfils.  A RowFilter is pickled and sent to executors."""

    conditions: tuple[Condition, ...] = ()

    def selects(self, partition: TopicPartition) -> bool:
        """Return whether the partition may contain rows that the query needs."""
        return all(
            _COMPARISONS[one.comparison](value, one.value) is not one.is_negated
            for column, value in (("topic", partition.topic), ("partition", partition.partition))
            for one in self._of(column)
        )

    def clipped(self, start_offset: int, end_offset: int) -> tuple[int, int]:
        """Return the part of an offset range that may contain rows that the query needs.  It may be empty."""
        for one in self._of("offset"):
            lowest, greatest = _bounds(one)
            start_offset = start_offset if lowest is None else max(start_offset, lowest)
            end_offset = end_offset if greatest is None else min(end_offset, greatest + 1)
        return start_offset, end_offset

    @property
    def timestamp_ms_min(self) -> int | None:
        """The earliest timestamp of a row that the query may need, in milliseconds since the epoch, or None."""
        return max(map(_earliest_ms, self._of("timestamp")), default=None)

    def rows_with_key(self, rows: "pa.RecordBatch") -> "pa.RecordBatch":
        """Return the rows whose `key` the query needs."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for one in self._of("key"):
            keys = rows.column("key")
            if one.comparison == IS_NULL:
                mask = pc.is_valid(keys) if one.is_negated else pc.is_null(keys)
            else:
                values = one.value if one.comparison == IN else (one.value,)
                mask = pc.is_in(keys, value_set=pa.array(values, pa.binary()))
                if one.is_negated:  # As in SQL, `key <> value` is not true for a null key.
                    mask = pc.and_(pc.invert(mask), pc.is_valid(keys))
            rows = rows.filter(mask)
        return rows

    def _of(self, column: str) -> Iterable[Condition]:
        """
        Return the conditions on `column`.

        IS NOT NULL is left out for columns other than `key`, which are never null.
        """
        return (
            one for one in self.conditions if one.column == column and (column == "key" or one.comparison != IS_NULL)
        )


def use_of(condition: Condition) -> Use:
    """Return how far a RowFilter can apply `condition`.  A condition with Use.NONE must not be added to a RowFilter."""
    column, comparison, value, is_negated = condition
    if column not in _TYPES:
        return Use.NONE
    if comparison == IS_NULL:
        return Use.ALL if column == "key" or is_negated else Use.NONE
    values = value if comparison == IN else (value,)
    if not values or not all(type(one) is _TYPES[column] for one in values):
        return Use.NONE
    match column:
        case "topic" | "partition":
            return Use.ALL
        case "offset" if not is_negated:
            return Use.SOME if comparison == IN else Use.ALL
        case "timestamp" if not is_negated and comparison in ("=", ">", ">=", IN):
            return Use.SOME if all(one.tzinfo is not None for one in values) else Use.NONE
        case "key" if comparison in ("=", IN):
            return Use.ALL
    return Use.NONE


def _bounds(condition: Condition) -> tuple[int | None, int | None]:
    """Return the lowest and the greatest offset that the condition allows."""
    value = condition.value
    match condition.comparison:
        case "=":
            return value, value
        case "<":
            return None, value - 1
        case "<=":
            return None, value
        case ">":
            return value + 1, None
        case ">=":
            return value, None
    return min(value), max(value)


def _earliest_ms(condition: Condition) -> int:
    """Return the earliest timestamp that a lower bound allows.  Records have timestamps in whole milliseconds."""
    moment: datetime = min(condition.value) if condition.comparison == IN else condition.value
    since = moment - _EPOCH
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return microseconds // 1_000 + 1 if condition.comparison == ">" else -(-microseconds // 1_000)
