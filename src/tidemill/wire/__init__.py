"""The Kafka protocol, sans-io.  Entry points: `wire.server_connection` and `wire.client_connection`."""
