"""A partition's log: segments, indexes, caches and producer states; `partition_log` is the entry point."""
