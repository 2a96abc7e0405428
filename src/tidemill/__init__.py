"""Tidemill: a distributed, durable message queue that speaks Kafka."""
