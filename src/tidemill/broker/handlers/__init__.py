"""The handlers: one file per Kafka API, with the API's name."""
