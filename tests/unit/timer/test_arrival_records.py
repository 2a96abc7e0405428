"""Batches whose records have plain headers are read without decoding them, with the same result."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.batches.builder import build_batch
from tidemill.timer import arrival_records, normalize
from tidemill.timer.arrival_records import arrivals_in, consumed_by
from tidemill.timer.due_row import UNPLACED, unpack_rows
from tidemill.timer.normalize import RecordRefused, normalized
from tidemill.timer.release_batch import Waiting, released_batch

STAMP = 1_800_000_000_000
TOPIC_ID = b"t" * 16

moments = st.integers(STAMP - 10, STAMP + 10_000).map(lambda it: b"%d" % it)
odd = st.sampled_from([b"2027-02-01T08:00:00Z", b"12", b"999999999999999999", b"-1", b"", None])
headers = st.one_of(
    st.tuples(st.just("tidemill-deliver-at"), moments),
    st.tuples(st.just("trace"), st.binary(max_size=3)),
    st.tuples(st.just("tidemill-deliver-at"), odd),
    st.tuples(st.sampled_from(["tidemill-delay", "tidemill-timer-id", "tidemill-cancel", "tidemill-ttl"]), moments),
)
plain_headers = st.lists(st.tuples(st.sampled_from(["tidemill-deliver-at", "trace"]), moments), max_size=1).map(tuple)
any_headers = plain_headers | plain_headers | st.lists(headers, max_size=3).map(tuple)
keys = st.none() | st.binary(max_size=3)
record_lists = st.lists(st.tuples(keys, st.binary(max_size=5), any_headers, st.just(STAMP)), min_size=1, max_size=5)


def outcome(batch: bytearray, delay_ms_max: int) -> Any:
    """Return the normalized batch and what replicas read of it; or the record that is refused, and why."""
    try:
        found = normalized(batch, STAMP, size_max=1 << 20, delay_ms_max=delay_ms_max)
    except RecordRefused as problem:
        return problem.index, str(problem)
    return found, arrivals_in(found.batch, 70, 1_000, TOPIC_ID)


@settings(max_examples=300)
@given(records=record_lists, delay_ms_max=st.sampled_from([-1, 0, 5_000]))
def test_plain_records_are_read_as_if_they_were_decoded(records: Any, delay_ms_max: int) -> None:
    batch = build_batch(records)
    found = outcome(bytearray(batch), delay_ms_max)

    with pytest.MonkeyPatch.context() as patch:
        for module in (normalize, arrival_records):
            patch.setattr(module, "numbers_in", lambda *_: None)  # decode all records
        assert outcome(bytearray(batch), delay_ms_max) == found


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
