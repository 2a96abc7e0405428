"""Compares a topic with another topic or with its archive.  Entry point: `audit.pipeline`."""
