"""The columns of dead letters."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.batches.row_encoder import headers_type
from tidemill.columnar.letter_columns import LETTER_COLUMNS, decoded_columns, schema, with_letter_columns
from tidemill.model.letter_origin import MESSAGES, origin_of

Headers = list[tuple[str, bytes | None]] | None

NAMES = (
    "__dlq.errors.topic",
    "__dlq.errors.partition",
    "__dlq.errors.offset",
    "__dlq.errors.group",
    "__dlq.errors.delivery.count",
    "__dlq.errors.message",
    "trace",
)
VALUES = (
    st.none()
    | st.sampled_from([text.encode() for text in MESSAGES.values()])
    | st.integers(-2, 1 << 65).map(lambda number: str(number).encode())
    | st.sampled_from([(1 << 31) - 1, 1 << 31, (1 << 63) - 1, 1 << 63]).map(lambda number: str(number).encode())
    | st.binary(max_size=4)
    | st.sampled_from([b"7\n", b"007", "٣".encode()])
)
HEADERS = st.none() | st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=8)


def columns_of(headers: list[Headers]) -> list[tuple[Any, ...]]:
    rows = pa.RecordBatch.from_arrays([pa.array(headers, headers_type())], names=["headers"])
    table = with_letter_columns(rows, LETTER_COLUMNS)
    assert table.schema.equals(schema(LETTER_COLUMNS, has_headers=False, has_letters=True))
    return [tuple(row.values()) for row in table.to_pylist()]


@given(st.lists(HEADERS, max_size=6))
def test_columns_say_what_the_headers_say(headers: list[Headers]) -> None:
    """
    The columns of every letter have what commands show for it, null where a header is missing or not valid.
    """
    origins = [origin_of(one or ()) for one in headers]

    assert [(it.cause, it.attempts, it.topic, it.partition, it.offset, it.group) for it in origins] == columns_of(
        headers
    )


def test_a_slice_of_rows_has_its_own_headers() -> None:
    """
    Rows that are a slice of a larger batch get the headers of these rows.
    """
    headers = [[("__dlq.errors.offset", b"%d" % number)] if number % 3 else None for number in range(9)]
    rows = pa.RecordBatch.from_arrays([pa.array(headers, headers_type())], names=["headers"]).slice(4, 4)

    table = with_letter_columns(rows, ["origin_offset", "headers"])

    assert [4, 5, None, 7] == table.column("origin_offset").to_pylist()
    assert rows.column("headers").equals(table.column("headers"))


def test_headers_are_decoded_only_for_columns_that_need_them() -> None:
    """
    A read of other columns does not decode headers, and one of letter columns does not return them unasked.
    """
    assert ["key"] == decoded_columns(["key"])
    assert ["key", "headers"] == decoded_columns(["cause", "key", "origin_topic"])
    assert ["headers", "key"] == decoded_columns(["headers", "cause", "key"])


def test_the_schema_has_letter_columns_last() -> None:
    """
    Without a list of columns, a read of dead letters has all of them after those of other reads.
    """
    names = schema(None, has_headers=True, has_letters=True).names

    assert ["timestampType", "headers", *LETTER_COLUMNS] == names[6:]
    assert "cause" not in schema(None, has_headers=False, has_letters=False).names


@pytest.mark.parametrize(
    ("columns", "has_letters", "problem"),
    [
        (["key", "cause"], False, "column 'cause' requires option records=dead-letters"),
        (["key", "causes"], True, "column 'causes' is unknown; the columns are key, .*, cause, attempts"),
    ],
)
def test_other_columns_are_refused(columns: list[str], has_letters: bool, problem: str) -> None:
    """
    The error names the option that a column needs, or the columns that there are.
    """
    with pytest.raises(ValueError, match=problem):
        schema(columns, has_headers=False, has_letters=has_letters)
