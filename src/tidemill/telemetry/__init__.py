"""Metrics, the event log, and the only import of the Prometheus library."""
