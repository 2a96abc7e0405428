"""Other projects' clients and tools against Tidemill: the client contract, and the output of Kafka's commands."""
