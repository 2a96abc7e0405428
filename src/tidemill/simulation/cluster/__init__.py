"""Whole brokers under faults; `cluster` is the entry point."""
