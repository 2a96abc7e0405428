"""The metrics of a broker, their rendering for Prometheus, and the event log."""
