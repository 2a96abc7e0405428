"""Pieces that several handlers share; `request_context` is the entry point."""
