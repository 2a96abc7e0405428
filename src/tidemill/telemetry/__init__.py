"""Counters, and the one import of the Prometheus library."""
