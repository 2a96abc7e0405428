"""Queues for the tests of the console."""

from typing import Any

from tidemill.console.cluster_view import OK, PartitionRow
from tidemill.console.group_reader import GroupRow
from tidemill.console.queue_view import Described, Queue, QueuePartition

GROUP = GroupRow(group_id="a group/1", state="Stable", protocol_type="share", coordinator=2, group_type="Share")


def partition_row(number: int = 0, leader: int | None = 1) -> PartitionRow:
    return PartitionRow(
        number=number,
        shard_id=1,
        state=OK,
        leader=leader,
        leader_epoch=1,
        replicas=(1,),
        in_sync=(1,),
        local=None,
    )


def queue_of(*shares: Described | None, topic: str = "orders") -> Queue:
    partitions = [QueuePartition(row=partition_row(at), share=share) for at, share in enumerate(shares)]
    return Queue(group_id=GROUP.group_id, topic=topic, partitions=partitions)


def share(**fields: Any) -> Described:
    return Described(**{"start": 0, "lag": 10, "end": 10, "leader_epoch": 1, **fields})
