"""From bytes to requests in order, and back, for clients and peers; `kafka_connection` is the entry point."""
