"""State that the broker keeps for its clients: memory, deadlines, fetch sessions and producer pipelines."""
