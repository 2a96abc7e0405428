"""A simulation of one shard's replicas under faults, without brokers or files.  Entry point: `shard_simulation`."""
