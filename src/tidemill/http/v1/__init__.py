"""The HTTP API of a broker for programs, below `/v1`."""
