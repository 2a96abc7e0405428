"""The resolution of positions to the offsets of a range."""

import pytest

from tests.unit.client.fake_cluster import FakeCluster, Group, Partition, Topic
from tidemill.columnar import source_options
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.spark.pipelines.frame.positions import parse_position
from tidemill.spark.pipelines.frame.source_range import RangeRefused, resolve


@pytest.fixture
def cluster():
    """
    Run a cluster with a topic whose partitions 0 and 1 have 30 records each, at 1, 2 and 3 s.  The first ten records of
    partition 1 have been removed.
    """
    with FakeCluster() as running:
        running.topics["t"] = Topic(partitions={0: Partition(), 1: Partition()})
        for partition in running.topics["t"].partitions.values():
            for second in (1, 2, 3):
                partition.append_records([b"x"] * 10, timestamp=second * 1_000)
        running.topics["t"].partitions[1].log_start_offset = 10
        yield running


def resolved(cluster, start="earliest", end="latest"):
    host, port = cluster.settings().bootstrap[0]
    reader = OffsetReader(source_options.for_batch({"kafka.bootstrap.servers": f"{host}:{port}", "subscribe": "t"}))
    try:
        found = resolve(reader, parse_position("t", "start", start), parse_position("t", "end", end))
    finally:
        reader.close()
    assert sum(found.end[p] - found.start[p] for p in found.start) == found.offset_count
    return {p.partition: (found.start[p], found.end[p]) for p in found.start}


@pytest.mark.parametrize(
    ("start", "end", "ranges"),
    [
        ("earliest", "latest", {0: (0, 30), 1: (10, 30)}),
        ("1970-01-01T00:00:02Z", "1970-01-01T00:00:03Z", {0: (10, 20), 1: (10, 20)}),
        ("1970-01-01T00:00:09Z", "latest", {0: (30, 30), 1: (30, 30)}),
        ("-5", "latest", {0: (25, 30), 1: (25, 30)}),
        ('{"1": 12}', "latest", {1: (12, 30)}),
        ("earliest", '{"0": 7}', {0: (0, 7)}),
        ('{"0": 5, "1": 20}', '{"1": 21, "0": 6}', {0: (5, 6), 1: (20, 21)}),
        ("latest", "-5", {0: (30, 30), 1: (30, 30)}),
    ],
)
def test_a_range_has_the_offsets_of_its_positions(cluster, start, end, ranges):
    """A range never ends before it starts, and never starts before the first record that is still in the topic."""
    assert ranges == resolved(cluster, start, end)


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        ('{"1": 9}', "latest", "start=9 of partition 1: topic 't' has its offsets 10 to 30; choose from these, or "),
        ("earliest", '{"0": 31}', "end=31 of partition 0: topic 't' has its offsets 0 to 30; choose from these, or "),
        ('{"0": 1}', '{"1": 12}', "start names the partitions 0, end 1: name the same in both"),
        ('{"4": 1}', "latest", "start names the partitions 4, and the topic has 0, 1: correct the numbers"),
        ("group:g", "latest", "start=3 of partition 1: topic 't' has its offsets 10 to 30; choose from these, or "),
    ],
)
def test_a_range_that_the_topic_does_not_have_is_refused(cluster, start, end, sentence):
    cluster.groups["g"] = Group(offsets={("t", 1): 3})

    with pytest.raises(RangeRefused) as failure:
        resolved(cluster, start, end)

    assert str(failure.value).startswith(sentence)
