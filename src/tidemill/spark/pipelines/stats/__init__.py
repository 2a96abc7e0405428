"""Counts what a topic holds, and draws it: the pipeline `stats`.  Entry point: `stats.pipeline`."""
