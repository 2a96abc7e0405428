"""Tidemill: a distributed, durable message queue that speaks the Kafka protocol."""
