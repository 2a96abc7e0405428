"""Leadership of shards: who may answer for a partition, and how leadership is transferred or drained."""
