"""Replays a range of a topic into a topic.  Entry point: `replay.pipeline`."""
