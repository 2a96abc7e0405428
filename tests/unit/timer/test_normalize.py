"""Batches of timer topics, as the leader rewrites them."""

import tracemalloc
from collections.abc import Callable
from random import Random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.timer.readable_normalize import readably_normalized
from tidemill.batches import scan as plain_scan
from tidemill.batches.batch import Buffer, crc_matches, read_header
from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.compression import Codec
from tidemill.batches.native import is_compiled
from tidemill.batches.records import read_records
from tidemill.timer import due_values as plain_values
from tidemill.timer import normalize
from tidemill.timer.due_time import DELAY, DELIVER_AT
from tidemill.timer.normalize import RecordRefused, normalized
from tidemill.timer.timer_headers import HEADERS_MAX, TIMER_ID

STAMP = 1_800_000_000_000
SIZE_MAX = 1 << 20


def record(*headers: tuple[str, bytes | None], value: bytes | None = b"v", timestamp: int = 5) -> RecordTuple:
    return b"k", value, headers, timestamp


def dues_of(batch: Buffer, later_ms: int = 0) -> list[int]:
    """Return when the records of a batch are due that is appended `later_ms` after the stamp."""
    headers = (dict(it.headers) for it in read_records(batch))
    return [int(it.get(DELIVER_AT, STAMP + later_ms) or b"") for it in headers]


def test_a_batch_that_needs_no_change_is_kept() -> None:
    batch = build_batch([record(), record((DELIVER_AT, b"1800000000500"))])

    found = normalized(batch, STAMP, size_max=SIZE_MAX)

    assert found is batch
    assert [STAMP, 1_800_000_000_500] == dues_of(found)


@pytest.mark.parametrize(
    ("header", "due"),
    [
        ((DELAY, b"5m"), STAMP + 300_000),
        ((DELAY, b"7"), STAMP + 7),
        ((DELIVER_AT, b"2027-01-31T08:00:00Z"), 1_801_382_400_000),
        ((DELIVER_AT, b"1960-01-01T00:00:00Z"), 0),
        ((DELIVER_AT, b"-1"), 0),
    ],
)
def test_delays_and_texts_become_digits_in_their_place(header: tuple[str, bytes], due: int) -> None:
    batch = build_batch([record(("a", b"1"), header, ("b", None))])

    found = normalized(batch, STAMP, size_max=SIZE_MAX)

    (rewritten,) = read_records(found)
    assert ((("a", b"1"), (DELIVER_AT, b"%d" % due), ("b", None)), [due]) == (rewritten.headers, dues_of(found))


def test_a_rewritten_batch_keeps_its_producer_and_its_records() -> None:
    given_records = [record((DELAY, b"1s"), timestamp=9), record(value=None, timestamp=3)]
    batch = build_batch(
        given_records,
        base_offset=40,
        leader_epoch=2,
        codec=Codec.ZSTD,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
    )

    found = normalized(batch, STAMP, size_max=SIZE_MAX)

    before, after = read_header(batch), read_header(found)
    kept = ("base_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "record_count")
    assert {name: getattr(before, name) for name in kept} == {name: getattr(after, name) for name in kept}
    assert Codec.NONE == after.codec
    assert [(9, b"v"), (3, None)] == [(it.timestamp, it.value) for it in read_records(found)]
    assert crc_matches(found)


def test_a_schedule_that_begins_before_1970_keeps_its_time_of_day() -> None:
    """Its first occurrence in the log is the first one that is not negative."""
    every = ("tidemill-schedule", b"every 1d"), (TIMER_ID, b"a")
    eight_ms, day_ms = 8 * 3_600_000, 86_400_000
    batch = build_batch(
        [
            record(*every, (DELIVER_AT, b"1960-01-01T08:00:00Z")),
            record(*every, (DELIVER_AT, b"%d" % (eight_ms - 3 * day_ms))),
            record(*every, (DELIVER_AT, b"1969-12-31T23:59:59.999Z")),
            record(*every, (DELIVER_AT, b"1970-01-01T00:00:00Z")),
        ]
    )

    assert [eight_ms, eight_ms, day_ms - 1, 0] == dues_of(normalized(batch, STAMP, size_max=SIZE_MAX))


def test_a_refusal_names_the_record() -> None:
    batch = build_batch([record(), record((DELAY, b"soon"))])

    with pytest.raises(RecordRefused, match="tidemill-delay='soon'") as refused:
        normalized(batch, STAMP, size_max=SIZE_MAX)

    assert 1 == refused.value.index


def test_a_schedule_that_occurs_too_late_is_shown() -> None:
    late = record(("tidemill-schedule", b"cron 0 8 1 1 *"), (TIMER_ID, b"a"))

    with pytest.raises(RecordRefused) as refused:
        normalized(build_batch([late]), STAMP, size_max=SIZE_MAX, delay_ms_max=60_000)

    said = "tidemill-schedule='cron 0 8 1 1 *': the first occurrence is later than tidemill.max.delay.ms=60000 allows"
    assert said == str(refused.value)


def test_a_bomb_is_refused_before_it_is_unfolded() -> None:
    batch = build_batch([record(value=bytes(10 << 20))], codec=Codec.ZSTD)

    with pytest.raises(ValueError, match="1048576"):
        normalized(batch, STAMP, size_max=SIZE_MAX)


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.integers(0, 10**9).map(lambda ms: (DELAY, b"%d" % ms)),
            st.integers(10**11, 10**13).map(lambda ms: (DELIVER_AT, b"%d" % ms)),
            st.just((DELIVER_AT, b"2027-01-31T08:00:00.123456Z")),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([Codec.NONE, Codec.LZ4, Codec.ZSTD]),
)
def test_a_normalized_batch_is_read_alike_at_any_later_time(
    headers: list[tuple[str, bytes] | None], codec: Codec
) -> None:
    """
    Its due times no longer depend on the clock, except those of records without a header, and it needs no change.
    """
    batch = build_batch([record(*(() if it is None else (it,))) for it in headers], codec=codec)

    first = normalized(batch, STAMP, size_max=SIZE_MAX)
    again = normalized(first, STAMP + 1_000, size_max=SIZE_MAX)

    assert again is first
    assert [due + (1_000 if it is None else 0) for due, it in zip(dues_of(first), headers, strict=True)] == dues_of(
        again, 1_000
    )


def nonsense(timer_id: int) -> RecordTuple:
    return record(("tidemill-schedule", b"nonsense"), (TIMER_ID, b"%d" % timer_id))


def test_too_many_schedules_are_refused_before_they_are_parsed() -> None:
    """
    The first one that is too many is named, although it is not even valid.  One that replaces another adds none.
    """
    batch = build_batch([record(), *map(nonsense, (1, 2, 3, 2, 9, 4, 5))])

    with pytest.raises(RecordRefused, match="5 new schedules at once, of which 3 are accepted now") as refused:
        normalized(batch, STAMP, size_max=SIZE_MAX, schedules_max=3, is_recurring=lambda it: it == b"9")
    with pytest.raises(RecordRefused, match="tidemill-schedule='nonsense'"):
        normalized(batch, STAMP, size_max=SIZE_MAX, schedules_max=5, is_recurring=lambda it: it == b"9")

    assert 6 == refused.value.index


def test_the_schedules_of_a_batch_are_bounded_whatever_they_replace() -> None:
    batch = build_batch([*map(nonsense, range(501))])

    with pytest.raises(RecordRefused, match="501 schedules in one batch: send at most 500") as refused:
        normalized(batch, STAMP, size_max=SIZE_MAX, is_recurring=lambda _: True)

    assert 500 == refused.value.index


EMPTY = ("", None)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize(
    "own",
    [(), ((DELIVER_AT, b"1800000000500"),), ((DELAY, b"1s"),), ((DELIVER_AT, b"1800000000500"), (TIMER_ID, b"a"))],
)
def test_a_record_with_countless_headers_is_refused(own: tuple[tuple[str, bytes], ...], codec: Codec) -> None:
    """
    Each of them may have two bytes, and take a hundred in memory, wherever the record is decoded.
    """
    others = [EMPTY] * (HEADERS_MAX - len(own))
    accepted = build_batch([record(*own, *others)] * 2, codec=codec)
    refused = build_batch([record(), record(*own, EMPTY, *others)], codec=codec)

    assert [HEADERS_MAX] * 2 == [len(it.headers) for it in read_records(normalized(accepted, STAMP, size_max=SIZE_MAX))]
    with pytest.raises(RecordRefused, match="it has 10001 headers: send at most 10000") as problem:
        normalized(refused, STAMP, size_max=SIZE_MAX)
    assert 1 == problem.value.index


def test_a_batch_of_many_records_takes_little_memory() -> None:
    """Records that are few bytes together take much more memory when they are decoded."""
    batch = build_batch([(None, None, ((DELAY, b"1s"),), 5)] * 40_000)

    tracemalloc.start()
    try:
        found = normalized(batch, STAMP, size_max=2 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [STAMP + 1_000] * 40_000 == dues_of(found)
    assert peak < 8 * len(batch)


def test_a_batch_with_fewer_records_than_it_says_is_refused() -> None:
    batch = build_batch([record((DELAY, b"1s"))] * 2)
    batch[57:61] = (3).to_bytes(4)  # the record count

    with pytest.raises(ValueError, match="record"):
        normalized(batch, STAMP, size_max=SIZE_MAX)
    batch[57:61] = (1).to_bytes(4)
    with pytest.raises(ValueError, match="record 1: bytes follow the last record"):
        normalized(batch, STAMP, size_max=SIZE_MAX)


moments = st.integers(STAMP - 10, STAMP + 10_000).map(lambda it: b"%d" % it)
odd = st.sampled_from([b"2027-02-01T08:00:00.5Z", b"5m", b"12", b"9" * 18, b"000%d" % STAMP, b"-1", b"", None])
names = st.sampled_from([DELIVER_AT, DELAY, TIMER_ID, TIMER_ID, "tidemill-cancel", "tidemill-ttl", "trace", "tide"])
recurring = st.sampled_from([b"every 15m", b"cron 30 8 * * *", b"nonsense"]).map(
    lambda it: (("tidemill-schedule", it), (TIMER_ID, b"a"))
)
usual_headers = st.sampled_from(
    [
        (),
        ((DELAY, b"5m"),),
        ((DELIVER_AT, b"1800000000500"),),
        (("trace", b"x"), (DELIVER_AT, b"2027-01-31T08:00:00+01:00"), ("tidemill-ttl", None)),
        ((TIMER_ID, b"a"), (DELAY, b"7")),
        ((TIMER_ID, b"b"), ("tidemill-cancel", b"")),
    ]
)
any_headers = st.lists(st.tuples(names, moments | odd), max_size=3).map(tuple) | st.builds(
    lambda before, its, after: (*before, *its, *after), usual_headers, recurring, st.just(()) | usual_headers
)
contents = st.none() | st.binary(max_size=3) | st.just(b"x" * 200)
any_records = st.tuples(contents, contents, usual_headers | usual_headers | any_headers, st.integers(0, 1 << 42))


def outcome(form: Callable[..., Buffer], batch: bytearray, **options: int) -> tuple[bytes | int, str]:
    """Return the normalized batch, and whether it is the same object; or the record that is refused, and why."""
    try:
        found = form(batch, STAMP, **options)
    except RecordRefused as problem:
        return problem.index, str(problem).partition(": the first occurrence")[0]
    except ValueError as problem:
        return -1, str(problem)
    return bytes(found), "kept" if found is batch else "written"


@settings(max_examples=500, deadline=None)
@given(
    records=st.lists(any_records, min_size=1, max_size=6),
    delay_ms_max=st.sampled_from([-1, 0, 500_000]),
    codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
)
def test_a_batch_is_normalized_as_if_its_records_were_decoded(
    due_values: ModuleType, records: list[RecordTuple], delay_ms_max: int, codec: Codec
) -> None:
    """The bytes are those of a readable implementation, and so are the record that is refused and the reason."""
    batch = build_batch(records, codec=codec, producer_id=7, producer_epoch=3, base_sequence=11, leader_epoch=2)

    found = outcome(normalized, batch, size_max=SIZE_MAX, delay_ms_max=delay_ms_max)

    assert outcome(readably_normalized, batch, delay_ms_max=delay_ms_max) == found


@pytest.mark.skipif(not is_compiled(), reason="there is no compiled build to compare with")
def test_both_implementations_agree_on_5_000_damaged_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is checked before, but no bytes may make the compiled code read or write beyond its buffers."""
    chance = Random(26)
    texts = (DELIVER_AT, b"2027-01-31T08:00:00Z"), ("", None)
    own = (), ((DELAY, b"5m"),), texts, ((TIMER_ID, b"a"), (DELAY, b"7"))
    batches = [build_batch([record(*headers, timestamp=at)] * 3) for at, headers in enumerate(own)]
    damaged = []
    for _ in range(5_000):
        batch = bytearray(chance.choice(batches))
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(61, len(batch))
            match chance.randrange(4):
                case 0:
                    batch[place] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                case 1:
                    batch[place:place] = chance.randbytes(chance.randrange(1, 11))
                case 2:
                    del batch[place : place + chance.randrange(1, 5)]
                case 3:
                    batch[57:61] = chance.randrange(-1, 6).to_bytes(4, signed=True)  # the record count
        batch[8:12] = (len(batch) - 12).to_bytes(4)
        damaged.append(batch)

    compiled = [outcome(normalized, it, size_max=SIZE_MAX) for it in damaged]
    monkeypatch.setattr(normalize, "due_values", plain_values)
    monkeypatch.setattr(normalize, "scan", plain_scan)

    assert compiled == [outcome(normalized, it, size_max=SIZE_MAX) for it in damaged]
