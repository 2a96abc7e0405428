"""Times of records that are read from the values of their headers, with both implementations."""

from array import array
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemill.batches.compiled_build import compiled_build
from tidemill.batches.records import Header
from tidemill.timer import due_values as plain
from tidemill.timer.due_time import DELAY, DELIVER_AT, DUE_MS_MAX, YEAR_1_MS, BadDueTime, due_ms
from tidemill.timer.schedule import BadSchedule, parse_schedule
from tidemill.timer.timer_headers import ARRIVAL, SCHEDULE, TIMER_ID, BadTimerId, timer_id

STAMP = 1_800_000_000_000

bounds = st.sampled_from([10**11, DUE_MS_MAX, YEAR_1_MS, 0])
numbers = st.integers(-(10**19), 10**19) | st.builds(lambda bound, more: bound + more, bounds, st.integers(-2, 2))
digits = st.builds(lambda number, size: b"%d" % number if size is None else b"%0*d" % (size, number), numbers,
                   st.none() | st.integers(1, 20))  # fmt: skip
delays = st.builds(
    lambda number, unit: b"%d%s" % (number, unit),
    st.integers(0, 10**13) | st.integers(0, 100),
    st.sampled_from([b"", b"ms", b"s", b"m", b"h", b"d", b"D", b"w", b"mms", b" s"]),
)
hours = st.integers(0, 23) | st.integers(25, 99)  # newer versions of Python read 24:00 as the next day
parts = st.integers(0, 60) | st.integers(0, 99)
zones = st.sampled_from(["Z", "z", "", "+", "Z0"]) | st.builds(
    lambda sign, hour, minute: f"{sign}{hour:02}:{minute:02}", st.sampled_from("+-"), hours, parts
)
texts = st.builds(
    lambda year, month, day, t, hour, minute, second, fraction, zone: (
        f"{year:04}-{month:02}-{day:02}{t}{hour:02}:{minute:02}:{second:02}{fraction}{zone}".encode()
    ),
    st.sampled_from([1, 1969, 1970, 1972, 1999, 2000, 2027, 2028, 2100, 9999, 0]) | st.integers(0, 9999),
    st.integers(1, 12) | st.integers(0, 13),
    st.integers(1, 28) | st.integers(0, 32),
    st.sampled_from("TTTt _"),
    hours,
    parts,
    parts,
    st.sampled_from(["", "", ".999999999", ".0", ","]) | st.text("0123456789", max_size=10).map(lambda it: f".{it}"),
    zones,
)
some = digits | delays | texts
damaged = st.builds(
    lambda value, at, byte, is_cut: value[: at % (len(value) + 1)] + byte + value[at % (len(value) + 1) + is_cut :],
    some,
    st.integers(0, 40),
    st.binary(max_size=1) | st.sampled_from([b"0", b"9", b":", b"/", b"-", b".", b" ", b"+"]),
    st.integers(0, 2),
)
values = st.none() | some | some | damaged


def block_of(records: list[list[Header]]) -> tuple[bytes, "array[int]"]:
    """Return the values of headers, and where they are, as `scan.found_headers` does."""
    block, found = b"", array("q")
    for index, headers in enumerate(records):
        for name, value in headers:
            found.extend((index, plain.NAMES.index(name), len(block), -1 if value is None else len(value)))
            block += value or b""
    return block, found


def due_of(headers: list[Header], latest_ms: int) -> int | None:
    """Return when a record is due; None if it is refused, or recurs."""
    try:
        due = due_ms(headers, STAMP)
        timer_id(headers)
        recurs = parse_schedule(headers) is not None
    except (BadDueTime, BadTimerId, BadSchedule):
        return None
    return None if recurs or due > latest_ms else due


@settings(max_examples=1_000, deadline=None)
@given(name=st.sampled_from([DELIVER_AT, DELAY]), value=values, latest_ms=st.sampled_from([DUE_MS_MAX, STAMP + 5_000]))
@example(name=DELIVER_AT, value=b"2027-02-28T23:59:60.9-23:59", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"2028-02-29t00:00:00.000000001+23:59", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"2100-02-29T00:00:00Z", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"1970-01-01T00:00:00+00:01", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"1960-01-01T00:00:00Z", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"0001-01-01T00:00:00+00:01", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"0001-01-01T00:00:00Z", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"-62135596800000", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"-62135596800001", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"-0", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"0", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"-", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"-1", latest_ms=DUE_MS_MAX)
@example(name=DELAY, value=b"-1", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"1970-01-01T00:00:00Z", latest_ms=DUE_MS_MAX)
@example(name=DELIVER_AT, value=b"2027-01-01T00:00:00.", latest_ms=DUE_MS_MAX)
@example(name=DELAY, value=b"999999999999d", latest_ms=DUE_MS_MAX)
@example(name=DELAY, value=b"9" * 18, latest_ms=DUE_MS_MAX)
@example(name=DELAY, value=b"123456789012ms", latest_ms=DUE_MS_MAX)
@example(name=DELAY, value=b"1234567890123ms", latest_ms=DUE_MS_MAX)
@example(name=DELAY, value=b"0000000000005m", latest_ms=DUE_MS_MAX)
def test_a_time_is_read_as_due_time_reads_it(
    due_values: ModuleType, name: str, value: bytes | None, latest_ms: int
) -> None:
    """What is refused there is left to the caller, and nothing else."""
    block, found = block_of([[(name, value)]])
    is_text = not (name == DELIVER_AT and (value or b"").isdigit())

    dues, left_over, recurring, has_text = due_values.due_times(block, found, 1, STAMP, latest_ms)

    wanted = due_of([(name, value)], latest_ms)
    assert ([0], STAMP) == ([*left_over], dues[0]) if wanted is None else ([], wanted) == (left_over, dues[0])
    assert (is_text and wanted is not None, []) == (has_text, recurring)


@pytest.mark.parametrize("year", [1970, 1972, 2000, 2027, 2028, 2100, 2104, 2400, 9999])
def test_every_month_ends_when_the_calendar_says(due_values: ModuleType, year: int) -> None:
    """A leap day is there in every fourth year, and in no century that 400 does not divide."""
    days = [f"{year}-{month:02}-{day}T12:00:00Z".encode() for month in range(1, 13) for day in range(27, 33)]
    block, found = block_of([[(DELIVER_AT, day)] for day in days])

    dues, left_over, _, _ = due_values.due_times(block, found, len(days), STAMP, DUE_MS_MAX)

    wanted = [due_of([(DELIVER_AT, day)], DUE_MS_MAX) for day in days]
    assert [STAMP if due is None else due for due in wanted] == [*dues]
    assert [index for index, due in enumerate(wanted) if due is None] == [at // 4 for at in left_over]


plain_values = st.sampled_from([b"5m", b"7", b"%d" % (STAMP + 9), b"2027-01-31T08:00:00Z", None, b"", b"a", b"b" * 257])
header_lists = st.lists(st.tuples(st.sampled_from(plain.NAMES), plain_values), max_size=3)
delivered = st.tuples(st.sampled_from([b"0", b"7", b"99999999999", b"-7", b"soon"]), st.permutations([0, 1])).map(
    lambda it: [[(DELIVER_AT, it[0]), (ARRIVAL, b"7")][at] for at in it[1]]
)
usual = st.lists(
    st.sampled_from([(TIMER_ID, b"a"), (TIMER_ID, b"b" * 256), ("tidemill-cancel", None), (DELAY, b"5m")]), max_size=3
)


@settings(max_examples=500, deadline=None)
@given(records=st.lists(header_lists | usual | delivered, min_size=1, max_size=6))
def test_records_with_several_headers_are_left_or_read(due_values: ModuleType, records: list[list[Header]]) -> None:
    """Each is on its own, and one without headers is due at the append time."""
    block, found = block_of(records)

    dues, left_over, recurring, _ = due_values.due_times(block, found, len(records), STAMP, DUE_MS_MAX)

    wanted = [due_of(it, DUE_MS_MAX) for it in records]
    assert [index for index, due in enumerate(wanted) if due is None] == [found[at] for at in left_over]
    assert [STAMP if due is None else due for due in wanted] == [*dues]
    assert all(at == 0 or found[at - 4] < found[at] for at in left_over), "a record is named by its first header"
    own = {index: [at for at, (name, _) in enumerate(it) if name == TIMER_ID] for index, it in enumerate(records)}
    assert [
        (at, at + 4 * own[found[at]][-1] if own[found[at]] else due_values.NO_ID)
        for at in left_over
        if any(name == SCHEDULE for name, _ in records[found[at]])
    ] == recurring


def outcome_of(form: ModuleType, *arguments: Any) -> Any:
    try:
        return form.due_times(*arguments)
    except ValueError as problem:
        return str(problem)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([0, 0, 0, 4], "a value of 4 bytes at 0 is outside of 3 bytes"),
        ([0, 0, 3, 1], "a value of 1 bytes at 3 is outside"),
        ([0, 0, 4, 0], "a value of 0 bytes at 4 is outside"),
        ([0, 0, -1, 2], "a value of 2 bytes at -1 is outside"),
        ([0, 0, 1, (1 << 63) - 1], "is outside"),
        ([2, 0, 0, 1], "record 2 is not one of 2"),
        ([-1, 0, 0, 1], "record -1 is not one of 2"),
        ([0, 0, 0], "3 numbers are not headers"),
    ],
)
def test_headers_outside_of_the_block_are_refused(due_values: ModuleType, found: list[int], problem: str) -> None:
    """Otherwise the compiled code would read or write other memory."""
    with pytest.raises(ValueError, match=problem):
        due_values.due_times(b"123", array("q", found), 2, STAMP, DUE_MS_MAX)


def test_an_append_time_to_which_no_delay_can_be_added_is_refused(due_values: ModuleType) -> None:
    for stamp_ms in (1 << 62, -(1 << 62)):
        with pytest.raises(ValueError, match="is no append time"):
            due_values.due_times(b"", array("q"), 1, stamp_ms, DUE_MS_MAX)


@pytest.mark.skipif(compiled_build("tidemill.timer.due_values") is None, reason="there is no build to compare with")
def test_both_implementations_agree_on_any_headers_and_bytes() -> None:
    """Bytes of other values lie around each value, and numbers may be of no header at all."""
    compiled, chance = compiled_build("tidemill.timer.due_values"), Random(26)
    assert compiled is not None
    pool = b"2027-01-31T08:00:60.123456789+01:00 1999-12-31t23:59:59Z 5m 17ms 12d 1800000000000 " * 2
    different = []
    for _ in range(20_000):
        block = bytearray(pool)
        for _ in range(chance.randrange(4)):
            block[chance.randrange(len(block))] = chance.choice(b"0129:-.TZsm+ \xff\x00")
        starts = 0, 19, 20, 36, 57, 60, 65, 69, chance.randrange(len(block))
        found = array("q")
        for record in range(3):
            for _ in range(chance.randrange(3)):
                found.extend((record, chance.choice((0, 0, 1, 1, 2, 3, 4)), chance.choice(starts),
                              chance.choice((-1, 1, 2, 3, 4, 13, 20, 35, chance.randrange(40)))))  # fmt: skip
        if found and chance.random() < 0.1:
            found[chance.randrange(len(found))] = chance.choice((-1, 3, len(block), 1 << 40, -(1 << 63), (1 << 63) - 1))
        arguments = bytes(block), found, 3, chance.choice((STAMP, 0, -5)), chance.choice((DUE_MS_MAX, STAMP + 10**9))
        if outcome_of(compiled, *arguments) != outcome_of(plain, *arguments):
            different.append(arguments)

    assert [] == different
