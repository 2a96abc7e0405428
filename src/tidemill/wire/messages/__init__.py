"""Declarations of the Kafka APIs: one file per API, named after the API."""
