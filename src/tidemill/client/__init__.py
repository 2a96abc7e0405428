"""The client, which runs in users' processes: a thin blocking layer for the CLI, Spark and tests."""
