"""What the broker keeps for its clients: memory, deadlines, fetch sessions (KIP-227) and pipelines of producers."""
