"""Turns bytes into requests, and responses into bytes, for clients and peers.  Entry point: `kafka_connection`."""
