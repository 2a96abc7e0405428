"""Hosts of replicated state machines: one core for each partition of an internal topic."""
