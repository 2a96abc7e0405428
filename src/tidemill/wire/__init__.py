"""The Kafka protocol, sans-io: bytes in, values out.  Entrances: `wire.server_connection`, `wire.client_connection`."""
