"""Benchmarks of Tidemill against Apache Kafka on one machine; the entry point is `python -m benchmarks`."""
