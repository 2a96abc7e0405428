"""The handlers: one file per Kafka API, named after the API."""
