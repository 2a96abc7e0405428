"""The Kafka protocol, without I/O.  Entry points: `wire.server_connection` and `wire.client_connection`."""
