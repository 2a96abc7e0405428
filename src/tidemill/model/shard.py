"""Shard ids.  A shard is the unit of replication: one Raft group over a range of a topic's partitions."""

from typing import NewType

ShardId = NewType("ShardId", int)  # never reused; 0 is the metadata shard

METADATA_SHARD = ShardId(0)
