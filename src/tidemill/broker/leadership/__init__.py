"""Leadership of shards: whether this broker may serve a partition, and how leadership is transferred or drained."""
