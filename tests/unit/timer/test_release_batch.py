"""A released record is a copy of its arrival, with headers of the broker."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.batches.record_bytes import append_record, raw_records
from tidemill.batches.batch import HEADER_BYTES
from tidemill.batches.builder import build_batch
from tidemill.timer.arrival_records import consumed_by, kept_in, records_at
from tidemill.timer.due_row import unpack_rows
from tidemill.timer.release_batch import ADDED_BYTES_MAX, Waiting, fitting, kept_batch, released_batch

STAMP = 1_800_000_000_000

contents = st.none() | st.binary(max_size=200)
names = st.sampled_from(["tidemill-deliver-at", "tidemill-arrival", "tidemill-timestamp", "tidemill-timer-id", "trace"])
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=3)), max_size=70).map(tuple)
records = st.tuples(contents, contents, headers, st.integers(-1, 1 << 60))
numbers = st.integers(0, (1 << 63) - 1)
raw_names = st.binary(max_size=20) | names.map(str.encode)
raw_headers = st.lists(st.tuples(raw_names, st.none() | st.binary(max_size=20)), max_size=70)


@given(found=st.lists(st.tuples(records, numbers, numbers), min_size=1, max_size=70))
def test_a_released_record_is_a_copy_with_headers_of_the_broker(found: Any) -> None:
    """
    Its time is the present one, and headers of producers that have the names of the broker's are replaced.
    """
    waiting, wanted = [], []
    for (key, value, sent, timestamp), arrival, due in found:
        record = bytes(build_batch([(key, value, sent, timestamp)])[HEADER_BYTES:])
        waiting.append(Waiting(arrival, due, timestamp, record))
        others = [
            (name, b"%d" % due if name == "tidemill-deliver-at" else content)
            for name, content in sent
            if name not in ("tidemill-arrival", "tidemill-timestamp")
        ]
        own = ("tidemill-timestamp", b"%d" % timestamp), ("tidemill-arrival", b"%d" % arrival)
        wanted.append((key, value, (*others, *own), STAMP))

    assert build_batch(wanted, log_append_time=STAMP) == released_batch(waiting, STAMP)


@given(
    found=st.lists(
        st.tuples(contents, contents, raw_headers, st.integers(-1, 1 << 60), numbers, numbers), min_size=1, max_size=70
    )
)
def test_a_record_keeps_its_bytes_on_its_way_through_the_kept_log(found: Any) -> None:
    """
    A name of a header is any bytes, also such as are no text, or none; it may be there twice, and a value may be null.
    """
    waiting = []
    for key, value, sent, timestamp, arrival, due in found:
        record = bytearray()
        append_record(record, 7, timestamp & 0xFF, key, value, sent)
        waiting.append(Waiting(arrival, due, timestamp, bytes(record)))

    kept = kept_batch(waiting, waiting[0].timestamp)
    moved = [
        Waiting(row.arrival, row.due_ms, timestamp, record)
        for row, (record, timestamp) in zip(
            unpack_rows(kept_in(kept, 0, 0)), records_at(kept, range(len(found))), strict=True
        )
    ]
    released = released_batch(moved, STAMP)

    wanted = []
    for key, value, sent, timestamp, arrival, due in found:
        own = (b"tidemill-deliver-at", due), (b"tidemill-timestamp", timestamp), (b"tidemill-arrival", arrival)
        others = [(name, content) for name, content in sent if name not in dict(own)]
        wanted.append((key, value, [*others, *((name, b"%d" % number) for name, number in own)]))
    assert wanted == raw_records(released)
    assert [it.arrival for it in waiting] == consumed_by(released)


@pytest.mark.parametrize("headers_before", [0, 62, 63])
def test_a_record_grows_by_a_bounded_number_of_bytes(headers_before: int) -> None:
    """
    Also if all numbers are as long as they can be, and each length needs one byte more than before.
    """
    others = [("x", None)] * headers_before
    for size in (0, 30, 8_150):
        sent = (("tidemill-deliver-at", b"0"), *others)
        record = bytes(build_batch([(None, bytes(size), sent, 0)])[HEADER_BYTES:])
        waiting = [Waiting(((1 << 63) - 1), (1 << 53), timestamp, record) for timestamp in (-1, (1 << 62))]

        bound = HEADER_BYTES + 2 * (len(record) + ADDED_BYTES_MAX)

        assert len(released_batch(waiting, STAMP)) <= bound
        assert len(kept_batch(waiting, waiting[0].timestamp)) <= bound
        assert (waiting, waiting[:1]) == (fitting(waiting, bound), fitting(waiting, bound - 1))
        assert waiting[:1] == fitting(waiting, 0)
