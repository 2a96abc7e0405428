"""A released record is a copy of its arrival, with headers of the broker."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidemill.batches.batch import HEADER_BYTES
from tidemill.batches.builder import build_batch
from tidemill.timer.release_batch import Waiting, released_batch

STAMP = 1_800_000_000_000

contents = st.none() | st.binary(max_size=200)
names = st.sampled_from(["tidemill-deliver-at", "tidemill-arrival", "tidemill-timestamp", "tidemill-timer-id", "trace"])
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=3)), max_size=70).map(tuple)
records = st.tuples(contents, contents, headers, st.integers(-1, 1 << 60))
numbers = st.integers(0, (1 << 63) - 1)


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
