"""What runs in other people's processes: a thin blocking layer for commands, Spark and tests."""
