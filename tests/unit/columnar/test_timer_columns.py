"""The columns `deliver_at` and `timer_id` of the sink: what becomes of them, and which values are refused."""

import pyarrow as pa
import pytest

from tidemill.batches.row_encoder import headers_type
from tidemill.columnar import timer_columns
from tidemill.columnar.row_faults import RowRefused
from tidemill.model.delayed_record import DUE_MS_MAX, DUE_MS_MIN

DUE = 1_800_000_000_000


def rows_of(**columns: pa.Array) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    return pa.record_batch({"value": pa.array([b"v"] * count, pa.binary()), **columns})


def headers_of(rows: pa.RecordBatch) -> list[list[tuple[str, bytes | None]]]:
    with_headers = timer_columns.with_timer_headers(rows, 0)
    with_headers.validate(full=True)
    assert not {"deliver_at", "timer_id"} & set(with_headers.schema.names)
    assert headers_type() == with_headers.schema.field("headers").type
    return [[(it["key"], it["value"]) for it in row] for row in with_headers.column("headers").to_pylist()]


def due_of(column: pa.Array) -> list[int | None]:
    return [int(row[0][1] or b"") if row else None for row in headers_of(rows_of(deliver_at=column))]


def refused(rows: pa.RecordBatch, rows_before: int = 0) -> str:
    with pytest.raises(RowRefused) as error:
        timer_columns.with_timer_headers(rows, rows_before)
    return str(error.value)


def test_the_values_of_a_row_become_headers_behind_its_own():
    headers = pa.array(
        [
            [("z", b"1"), ("a", None)],
            None,
            [],
            [("b", b"2")],
            [("tidemill-ttl", b"5m")],
        ],
        headers_type(),
    )
    rows = rows_of(
        headers=headers,
        deliver_at=pa.array([DUE, DUE + 1, None, None, DUE + 2], pa.int64()),
        timer_id=pa.array([b"x", None, b"\xff", None, b"y"], pa.binary()),
    )

    due, timer = "tidemill-deliver-at", "tidemill-timer-id"
    expected = [
        [("z", b"1"), ("a", None), (due, b"1800000000000"), (timer, b"x")],
        [(due, b"1800000000001")],
        [(timer, b"\xff")],
        [("b", b"2")],
        [("tidemill-ttl", b"5m"), (due, b"1800000000002"), (timer, b"y")],
    ]
    assert expected == headers_of(rows)
    assert expected[1:4] == headers_of(rows.slice(1, 3))
    assert [] == headers_of(rows.slice(0, 0))


def test_one_column_suffices_and_rows_without_the_columns_are_unchanged():
    plain = rows_of(key=pa.array([b"k"], pa.binary()))

    assert plain is timer_columns.with_timer_headers(plain, 0)
    assert [[("tidemill-timer-id", b"x")], []] == headers_of(rows_of(timer_id=pa.array([b"x", None], pa.binary())))


@pytest.mark.parametrize(("unit", "per_ms"), [("ms", 1), ("us", 1_000), ("ns", 1_000_000)])
def test_a_timestamp_is_rounded_up_so_that_no_record_is_early(unit: str, per_ms: int):
    exact = DUE * per_ms
    given = [exact, exact + per_ms - 1, exact - 1, exact + per_ms, None]

    due = due_of(pa.array(given, pa.timestamp(unit, "Europe/Berlin")))

    assert [DUE, DUE + (per_ms > 1), DUE - (per_ms == 1), DUE + 1, None] == due


def test_seconds_become_milliseconds():
    assert [DUE, None] == due_of(pa.array([DUE // 1_000, None], pa.timestamp("s", "UTC")))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_timestamp_long_ago_is_due_at_once(unit: str):
    column = pa.array([-1, 0, 1, -(1 << 62)], pa.timestamp(unit, "UTC"))

    assert [DUE_MS_MIN] * 4 == due_of(column)


@pytest.mark.parametrize("due", [DUE_MS_MIN, DUE_MS_MAX])
def test_the_bounds_of_numbers_are_allowed(due: int):
    assert [due] == due_of(pa.array([due], pa.int64()))


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (
            pa.array([DUE, DUE_MS_MIN - 1], pa.int64()),
            "row 8: deliver_at is 99999999999: a number is ms since the epoch, and this one looks like seconds",
        ),
        (pa.array([None, -1], pa.int64()), "row 8: deliver_at is -1: a number is ms"),
        (
            pa.array([DUE, DUE_MS_MAX + 1], pa.int64()),
            "row 8: deliver_at is 253402300800000 ms since the epoch, after the year 9999: correct it",
        ),
        (
            pa.array([None, DUE_MS_MAX * 1_000 + 1], pa.timestamp("us", "UTC")),
            "row 8: deliver_at is 253402300799999001 us since the epoch, after the year 9999",
        ),
        (
            pa.array([0, 1 << 62], pa.timestamp("s", "UTC")),
            "row 8: deliver_at is 4611686018427387904 s since the epoch, after the year 9999",
        ),
    ],
)
def test_a_due_time_that_a_broker_would_refuse_names_the_row(column: pa.Array, sentence: str):
    assert sentence in refused(rows_of(deliver_at=column), rows_before=7)


def test_the_topic_of_a_refused_row_is_named_where_rows_have_one():
    rows = rows_of(topic=pa.array(["t", "u"]), deliver_at=pa.array([DUE, 5], pa.int64()))

    assert refused(rows).startswith("topic 'u', row 1: deliver_at is 5: ")


@pytest.mark.parametrize(("timer_id", "size"), [(b"", 0), (b"x" * 257, 257)])
def test_a_timer_id_has_1_to_256_bytes(timer_id: bytes, size: int):
    rows = rows_of(timer_id=pa.array([b"x" * 256, timer_id], pa.binary()))

    assert f"row 1: timer_id has {size} bytes: use 1 to 256 bytes, or null for none" == refused(rows)


@pytest.mark.parametrize(
    ("column", "header"),
    [
        ("deliver_at", "tidemill-deliver-at"),
        ("deliver_at", "tidemill-delay"),
        ("timer_id", "tidemill-timer-id"),
    ],
)
def test_a_row_may_say_it_in_a_header_or_in_the_column_but_not_in_both(column: str, header: str):
    headers = pa.array([None, [("a", b"")], [("a", b""), (header, b"5")]], headers_type())
    values = {"deliver_at": pa.array([DUE, DUE, DUE], pa.int64()), "timer_id": pa.array([b"x"] * 3, pa.binary())}
    other = {"deliver_at": "timer_id", "timer_id": "deliver_at"}[column]

    assert (
        f"row 2: {column} is there beside the header {header}: remove the header, or set the column to null"
        == refused(rows_of(headers=headers, **{column: values[column]}))
    )
    assert 3 == len(headers_of(rows_of(headers=headers, **{other: values[other]})))
    absent = pa.array([DUE, DUE, None], pa.int64()) if column == "deliver_at" else pa.array([b"x", b"x", None])
    assert [("a", b""), (header, b"5")] == headers_of(rows_of(headers=headers, **{column: absent}))[2]


def test_rows_with_a_value_in_either_column_need_a_timer_topic():
    rows = rows_of(deliver_at=pa.array([DUE, None, None], pa.int64()), timer_id=pa.array([None, b"x", None]))

    found = timer_columns.timer_rows(rows)
    assert found is not None
    assert [True, True, False] == found.to_pylist()
    assert timer_columns.timer_rows(rows_of(key=pa.array([b"k"]))) is None


def test_a_column_of_type_null_is_as_if_it_were_missing():
    assert not timer_columns.has_timer_columns(pa.schema({"value": pa.binary(), "deliver_at": pa.null()}))
    assert timer_columns.has_timer_columns(pa.schema({"timer_id": pa.string(), "deliver_at": pa.null()}))
