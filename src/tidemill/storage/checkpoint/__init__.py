"""Checkpoints: what they hold, and how one is taken beside the journal; `checkpointer` is the entry point."""
