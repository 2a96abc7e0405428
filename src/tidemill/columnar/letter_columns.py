"""The columns that dead letters have in addition: what their headers say about the dead record (KIP-1191).

They are computed from the decoded headers, for all rows of a record batch at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tidemill.batches import arrow
from tidemill.batches.row_encoder import HEADERS_COLUMN
from tidemill.model import dead_letters as names
from tidemill.model.letter_origin import MESSAGES

if TYPE_CHECKING:
    import pyarrow as pa

CAUSE: Final = "cause"
_HEADERS: Final = {
    CAUSE: names.MESSAGE,
    "attempts": names.DELIVERY_COUNT,
    "origin_topic": names.TOPIC,
    "origin_partition": names.PARTITION,
    "origin_offset": names.OFFSET,
    "origin_group": names.GROUP,
}
"""The header that each column is read from."""

LETTER_COLUMNS: Final = tuple(_HEADERS)
_INT32: Final = ("attempts", "origin_partition")
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


def schema(columns: Sequence[str] | None, *, has_headers: bool, has_letters: bool) -> pa.Schema:
    """
    Return the schema of a read: that of the given columns, in this order, or of all columns.

    Raise ValueError for an unknown column, and for a column of dead letters without `has_letters`.
    """
    import pyarrow as pa

    if not has_letters:
        asked = next((name for name in columns or () if name in _HEADERS), None)
        if asked is not None:
            raise ValueError(f"column {asked!r} requires option records=dead-letters")
        return arrow.schema(columns, include_headers=has_headers)
    records = arrow.schema(include_headers=True)
    if columns is None:
        columns = (*arrow.schema(include_headers=has_headers).names, *LETTER_COLUMNS)
    every = {field.name: field for field in records} | {name: pa.field(name, _type(name)) for name in _HEADERS}
    unknown = next((name for name in columns if name not in every), None)
    if unknown is not None:
        raise ValueError(f"column {unknown!r} is unknown; the columns are {', '.join(every)}")
    return pa.schema([every[name] for name in columns])


def decoded_columns(columns: Sequence[str]) -> Sequence[str]:
    """Return the columns that are decoded from the records, so that `with_letter_columns` can return `columns`."""
    if not any(name in _HEADERS for name in columns):
        return columns
    own = [name for name in columns if name not in _HEADERS]
    return own if HEADERS_COLUMN in own else [*own, HEADERS_COLUMN]


def with_letter_columns(rows: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return `columns` in this order, of rows that have the columns `decoded_columns(columns)`."""
    if not any(name in _HEADERS for name in columns):
        return rows
    import pyarrow as pa

    headers = _Headers(rows.column(HEADERS_COLUMN))
    arrays = [_letter_column(name, headers) if name in _HEADERS else rows.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _type(column: str) -> pa.DataType:
    import pyarrow as pa

    if column in _INT32:
        return pa.int32()
    return pa.int64() if column == "origin_offset" else pa.string()


class _Headers:
    """The headers of all rows, flattened."""

    def __init__(self, headers: pa.Array) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        entries = headers.flatten()  # without the entries of rows whose list is null
        self._names = entries.field("key")
        self._values = entries.field("value")
        self._rows = pc.list_parent_indices(headers).cast(pa.int64())
        self._every_row = pa.array(range(len(headers)), pa.int64())

    def first(self, name: str) -> pa.Array:
        """Return the value of each row's first header with this name, as bytes; null where there is none."""
        import pyarrow.compute as pc

        is_named = pc.equal(self._names, name)
        found = pc.index_in(self._every_row, value_set=self._rows.filter(is_named))  # the first position of each row
        return self._values.filter(is_named).take(found)


def _letter_column(column: str, headers: _Headers) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = headers.first(_HEADERS[column])
    if column == CAUSE:
        texts = pa.array([text.encode() for text in MESSAGES.values()], pa.binary())
        return pa.array([str(cause) for cause in MESSAGES]).take(pc.index_in(values, value_set=texts))
    kind = _type(column)
    if kind == pa.string():
        return _as_text(values)
    greatest = _INT32_MAX if kind == pa.int32() else _INT64_MAX
    return _as_numbers(_as_text(values), greatest).cast(kind)


def _as_text(values: pa.Array) -> pa.Array:
    import pyarrow as pa

    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # a producer may send any bytes; invalid UTF-8 is replaced, as in the names of headers
        return pa.array([None if it is None else it.decode(errors="replace") for it in values.to_pylist()], pa.string())


def _as_numbers(texts: pa.Array, greatest: int) -> Any:
    """Return the numbers from 0 to `greatest` that the texts contain; null for any other text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = len(str(greatest))
    is_short = pc.match_substring_regex(texts, rf"\A[0-9]{{1,{digits}}}\z")
    wide = pc.if_else(is_short, texts, pa.scalar(None, pa.string())).cast(pa.decimal128(digits, 0))
    return pc.if_else(
        pc.less_equal(wide, pa.scalar(greatest, pa.decimal128(digits, 0))), wide, pa.scalar(None, wide.type)
    )
