"""Checkpoints of the journal, and recovery from them."""
