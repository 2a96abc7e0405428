"""One shard's replicas under faults; `shard_simulation` is the entry point."""
