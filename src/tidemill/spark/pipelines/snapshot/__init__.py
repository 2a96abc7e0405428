"""Stores the newest value of every key of a topic as Parquet.  Entry points: `snapshot.pipeline`, `snapshot_reader`."""
