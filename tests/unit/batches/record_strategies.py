"""Hypothesis strategies for records."""

from hypothesis import strategies as st

from tidemill.batches.records import Record

contents = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=4).map(tuple)


def lists_of_records(timestamps: st.SearchStrategy[int]) -> st.SearchStrategy[list[Record]]:
    record = st.builds(Record, key=contents, value=contents, headers=headers, timestamp=timestamps)
    return st.lists(record, min_size=1, max_size=20)


record_lists = lists_of_records(st.integers(-1, 1 << 42))
dated_record_lists = lists_of_records(st.integers(0, 1 << 42))  # aiokafka's builder treats the timestamp -1 as missing


def numbered(records: list[Record], base_offset: int = 0) -> list[Record]:
    """Return the records with consecutive offsets from `base_offset`, as a reader of their batch must return them."""
    return [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
