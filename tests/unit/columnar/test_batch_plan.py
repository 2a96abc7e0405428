"""The plan of a batch read: bounds, filters and data loss."""

from datetime import UTC, datetime

import pytest

from tests.unit.client.fake_cluster import FakeCluster, Group, Partition, Topic
from tidemill.columnar import batch_plan, source_options
from tidemill.columnar.data_loss import DataLossError
from tidemill.columnar.row_filter import IN, Condition, RowFilter


@pytest.fixture
def cluster():
    """
    Return a cluster whose topic has 30 records in each of the partitions 0 and 1, ten each at 1 s, 2 s and 3 s.
    """
    with FakeCluster() as running:
        running.topics["t"] = Topic(partitions={0: Partition(), 1: Partition()})
        for partition in running.topics["t"].partitions.values():
            for second in (1, 2, 3):
                partition.append_records([b"x"] * 10, timestamp=second * 1_000)
        yield running


def planned(cluster, *conditions, **options):
    host, port = cluster.settings().bootstrap[0]
    given = {"kafka.bootstrap.servers": f"{host}:{port}", "subscribe": "t", **options}
    parts = batch_plan.plan(source_options.for_batch(given), RowFilter(conditions))
    return [(one.partition, one.start_offset, one.end_offset) for one in parts]


def test_bounds_may_be_relative(cluster):
    """
    The bounds of a read may be a number of offsets before the end, or the committed offsets of a group.
    """
    cluster.groups["g"] = Group(offsets={("t", 0): 12})

    assert [(0, 25, 30), (1, 25, 30)] == planned(cluster, startingoffsets="-5")
    assert [(0, 0, 25), (1, 0, 25)] == planned(cluster, endingoffsets="-5")
    assert [(0, 12, 30), (1, 0, 30)] == planned(cluster, startingoffsets="group:g")
    assert [(0, 0, 12)] == planned(cluster, endingoffsets="group:g")
    assert [(0, 12, 28), (1, 0, 28)] == planned(cluster, startingoffsets="group:g", endingoffsets="-2")


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        (Condition("partition", "=", 1), [(1, 0, 30)]),
        (Condition("topic", "=", "u"), []),
        (Condition("offset", ">=", 7), [(0, 7, 30), (1, 7, 30)]),
        (Condition("offset", IN, (3, 5)), [(0, 3, 6), (1, 3, 6)]),
        (Condition("timestamp", ">=", datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)), [(0, 10, 30), (1, 10, 30)]),
        (Condition("timestamp", ">", datetime(1970, 1, 2, tzinfo=UTC)), []),
        (Condition("timestamp", ">", datetime(1960, 1, 1, tzinfo=UTC)), [(0, 0, 30), (1, 0, 30)]),
        (Condition("key", "=", b"k"), [(0, 0, 30), (1, 0, 30)]),
    ],
)
def test_filters_make_the_plan_smaller(cluster, condition, parts):
    """
    Conditions on partition, offset and the lower bound of the timestamp make the plan smaller; conditions on the key do
    not.
    """
    assert parts == planned(cluster, condition)


def test_a_loss_counts_only_where_the_query_reads(cluster):
    """
    Missing offsets count as data loss only if the query's filters do not exclude them.
    """
    cluster.topics["t"].partitions[0].log_start_offset = 10
    options = {"startingoffsets": '{"t":{"0":0,"1":0}}'}

    with pytest.raises(DataLossError, match="startingOffsets is 0 for t-0, which now starts at 10"):
        planned(cluster, **options)
    assert [(0, 15, 30), (1, 15, 30)] == planned(cluster, Condition("offset", ">=", 15), **options)
    assert [(1, 0, 30)] == planned(cluster, Condition("partition", "=", 1), **options)


def test_tasks_are_limited_in_bytes(cluster):
    """
    maxBytesPerPartition splits the read by the stored sizes of its batches.
    """
    size = len(cluster.partition.batches[0])

    assert [(p, n, n + 10) for p in (0, 1) for n in (0, 10, 20)] == planned(cluster, maxbytesperpartition=str(size))


def test_only_the_limits_of_batches_apply(cluster, caplog):
    """
    Options for streaming queries are ignored with a warning; the one for commitGroup says that nothing is committed.
    """
    assert [(0, 0, 30), (1, 0, 30)] == planned(cluster, commitgroup="g", maxbytespertrigger="1")

    assert {
        "option maxBytesPerTrigger is ignored in batch queries",
        "option commitGroup is ignored in batch queries: nothing is committed after a batch read",
    } == {record.getMessage() for record in caplog.records}
