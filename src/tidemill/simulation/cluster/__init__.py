"""A simulation of whole brokers under faults; `cluster` is the entry point."""
