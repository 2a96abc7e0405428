"""Snapshot installs: the rows that begin and end an install, and the copy of the snapshot's bytes."""
