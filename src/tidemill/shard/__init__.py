"""Raft and storage put together: a replicated shard.  Entrance: `shard.shard`."""
