"""Batches whose records have plain headers are read without decoding them, with the same result."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.batches.batch import read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.records import Record, read_records
from tidemill.timer import arrival_records
from tidemill.timer.arrival_records import arrivals_in, consumed_by, decoded_parts, kept_in, records_of, starts_of
from tidemill.timer.due_row import KEPT, UNPLACED, unpack_rows
from tidemill.timer.normalize import RecordRefused, normalized
from tidemill.timer.release_batch import Waiting, kept_batch, released_batch
from tidemill.timer.timer_headers import hash_of
from tidemill.timer.waiting_set import TimerArrival

STAMP = 1_800_000_000_000
TOPIC_ID = b"t" * 16

moments = st.integers(STAMP - 10, STAMP + 10_000).map(lambda it: b"%d" % it)
odd = st.sampled_from([b"2027-02-01T08:00:00Z", b"12", b"9" * 18, b"0" * 9 + b"%d" % STAMP, b"-1", b"", None])
ids = st.sampled_from([b"a", b"b" * 256, b"c" * 257, b"", None])
headers = st.one_of(
    st.tuples(st.just("tidemill-deliver-at"), moments),
    st.tuples(st.just("trace"), st.binary(max_size=3)),
    st.tuples(st.just("tidemill-deliver-at"), odd),
    st.tuples(st.sampled_from(["tidemill-timer-id", "tidemill-timer-id", "tidemill-cancel"]), ids),
    st.tuples(st.sampled_from(["tidemill-delay", "tidemill-ttl"]), moments),
    st.just(("tidemill-schedule", b"every 15m")),
)
plain_headers = st.lists(st.tuples(st.sampled_from(["tidemill-deliver-at", "trace"]), moments), max_size=1).map(tuple)
timer_headers = st.builds(lambda due, name: (*due, ("tidemill-timer-id", name)), plain_headers, st.binary(min_size=1))
any_headers = plain_headers | plain_headers | timer_headers | timer_headers | st.lists(headers, max_size=3).map(tuple)
keys = st.none() | st.binary(max_size=3)
record_lists = st.lists(st.tuples(keys, st.binary(max_size=5), any_headers, st.just(STAMP)), min_size=1, max_size=5)


def outcome(batch: bytearray, delay_ms_max: int) -> Any:
    """Return the normalized batch and what replicas read of it; or the record that is refused, and why."""
    try:
        found = normalized(batch, STAMP, size_max=1 << 20, delay_ms_max=delay_ms_max)
    except RecordRefused as problem:
        return problem.index, str(problem)
    return found, arrivals_in(found, 70, 1_000, TOPIC_ID)


def decoded_arrivals(records: list[Record]) -> tuple[list[int], list[TimerArrival]]:
    """Return what a replica reads of records, by their decoded headers: when they are due, and those with ids."""
    dues, timers = [], []
    for at, record in enumerate(records):
        given = {name: value or b"" for name, value in record.headers}
        dues.append(int(given.get("tidemill-deliver-at", STAMP)))
        if (timer_id := given.get("tidemill-timer-id")) is not None:
            flags = "tidemill-cancel" in given, "tidemill-schedule" in given
            timers.append(TimerArrival(at, dues[-1], hash_of(timer_id, TOPIC_ID), *flags))
    return dues, timers


@settings(max_examples=500)
@given(records=record_lists, delay_ms_max=st.sampled_from([-1, 0, 5_000]))
def test_records_are_read_as_if_they_were_decoded(records: Any, delay_ms_max: int) -> None:
    batch = build_batch(records)
    found = outcome(bytearray(batch), delay_ms_max)

    if not isinstance(found[0], int):
        dues, timers = decoded_arrivals(read_records(found[0]))
        assert timers == found[1].timers
        assert dues == [row.due_ms for row in unpack_rows(found[1].rows)]


def test_rows_say_where_records_lie_if_that_is_known() -> None:
    batch = build_batch([(b"k", b"a", (), 5), (b"k", b"b", (), 5)])

    unplaced = unpack_rows(arrivals_in(batch, 70, None, TOPIC_ID).rows)
    placed = unpack_rows(arrivals_in(batch, 70, 1_000, TOPIC_ID).rows)

    assert [UNPLACED, UNPLACED] == [row.position for row in unplaced]
    assert [(70, 1_061), (71, 1_070)] == [(row.arrival, row.position) for row in placed]


@given(
    arrivals=st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=5),
    name=st.sampled_from(["trace", "tidemill-arrivals"]),
)
def test_a_released_batch_names_the_arrivals_that_it_consumes(arrivals: list[int], name: str) -> None:
    """Numbers of 19 digits, and headers of producers with similar names, are no exception."""
    plain = bytes(build_batch([(None, b"a", ((name, b"1"),), 5)])[61:])
    batch = released_batch([Waiting(it, STAMP, 5, plain) for it in arrivals], STAMP)

    assert arrivals == consumed_by(batch)


def test_records_are_decoded_in_parts_of_few_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A record that has arrived before its headers were bounded is a part of its own.
    """
    counts = [2, 0, 3, 9, 1, 5, 0, 0, 0]
    batch = build_batch([(b"%d" % at, b"", [("", None)] * count, at) for at, count in enumerate(counts)], base_offset=7)
    header, starts = read_header(batch), starts_of(batch)
    monkeypatch.setattr(arrival_records, "PART_RECORDS", 3)
    monkeypatch.setattr(arrival_records, "PART_HEADERS", 5)

    parts = [*decoded_parts(batch, starts, header)]

    assert [[2, 0, 3], [9], [1], [5, 0, 0], [0]] == [[len(it.headers) for it in part] for part in parts]
    assert read_records(batch) == [it for part in parts for it in part]
    assert [*zip(read_records(batch), pairwise(starts), strict=True)] == [*records_of(batch, header)]


def test_a_malformed_record_is_no_record_with_countless_headers() -> None:
    batch = build_batch([(b"k", b"", (), 5)] * 2)
    starts = starts_of(batch)
    batch[starts[1]] = 0xFF

    with pytest.raises(ValueError, match="record 1"):
        [*decoded_parts(batch, starts, read_header(batch))]


def test_rows_of_moved_records_are_those_of_their_last_headers() -> None:
    plain = bytes(build_batch([(b"k", b"a", (("x", b"1"), ("tidemill-arrival", b"9")), 5)])[61:])
    batch = kept_batch([Waiting(at, STAMP + at, 5, plain) for at in (3, 8)], 5)

    rows = unpack_rows(kept_in(batch, 70, None))

    assert [(STAMP + 3, 3, 70 | KEPT), (STAMP + 8, 8, 71 | KEPT)] == [(it.due_ms, it.arrival, it.offset) for it in rows]
