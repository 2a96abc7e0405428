"""Checkpoints: their contents, and how one is taken while blocks are written; `checkpointer` is the entry point."""
