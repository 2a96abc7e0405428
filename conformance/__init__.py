"""Clients and tools of others against Tidemill: what they may expect of a Kafka broker, and what they print."""
