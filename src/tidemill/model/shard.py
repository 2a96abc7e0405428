"""Shards: what brokers replicate."""

from typing import NewType

ShardId = NewType("ShardId", int)  # never reused; 0 is the metadata shard

METADATA_SHARD = ShardId(0)
