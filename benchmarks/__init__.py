"""Tidemill beside Apache Kafka on this machine; the entrance is `python -m benchmarks`."""
