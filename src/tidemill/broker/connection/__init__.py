"""A client's connection: from bytes to requests in order, and back; `kafka_connection` is the entry point."""
