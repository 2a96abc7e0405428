"""The replicas of one shard under faults, without brokers or files; `shard_simulation` is the entry point."""
