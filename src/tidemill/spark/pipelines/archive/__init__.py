"""Copies a topic to Parquet files or an Iceberg table, each offset exactly once.  Entry point: `archive.pipeline`."""
