"""Checks a topic that a job has filled with the numbered records of another topic, at least once each."""

from collections import Counter
from collections.abc import Iterable

from tests.fault.spark_jobs.topic_records import Record, number_of, numbered


def duplicates_of(records: Iterable[Record], count: int) -> int:
    """
    Return how many records are in the topic in addition to one copy of each of the `count` numbered records.

    Raise AssertionError if a record is missing or changed, if the first copies of a key's records are not in order, or
    if a key is in two partitions.
    """
    found: Counter[int] = Counter()
    partition_of: dict[bytes | None, int] = {}
    newest: dict[bytes | None, int] = {}
    for record in records:
        number = number_of(record)
        found[number] += 1
        assert numbered(number) == (record.key, record.value, record.timestamp_ms, record.headers), record
        assert record.partition == partition_of.setdefault(record.key, record.partition), record
        if found[number] == 1:
            assert newest.get(record.key, -1) < number, f"{record} comes after number {newest[record.key]}"
            newest[record.key] = number
    lost = set(range(count)) - found.keys()
    assert not lost, f"{len(lost)} records are lost, the first is {min(lost)}"
    assert count == len(found)
    return found.total() - count
