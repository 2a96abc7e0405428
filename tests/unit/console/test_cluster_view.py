"""How the banner names partitions that have no leader or too few replicas."""

from tests.unit.console.console_world import shard
from tidemill.console.cluster_view import Span, spans


def test_consecutive_partitions_are_one_span() -> None:
    """
    Consecutive partitions in danger are shown as one span, even if they belong to several shards.  Partitions that are
    not in danger separate two spans of the same topic.
    """
    rows = [
        shard(1, "a", first_partition=0, partition_count=4),
        shard(2, "a", first_partition=4, partition_count=4),
        shard(4, "a", first_partition=12, partition_count=2),
        shard(5, "b", first_partition=14, partition_count=1),
    ]

    assert [Span("a", 0, 8), Span("a", 12, 2), Span("b", 14, 1)] == spans(rows)
