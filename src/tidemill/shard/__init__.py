"""A replicated shard: Raft and storage together.  The entry point is `shard.shard`."""
