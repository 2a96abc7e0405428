"""Snapshot installs: the rows that frame one, and the copy of its bytes."""
