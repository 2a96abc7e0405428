"""A thin blocking client for the CLI, Spark and tests.  It runs in users' processes."""
