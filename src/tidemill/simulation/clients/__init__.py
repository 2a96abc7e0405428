"""Clients of a simulated cluster and the history of what they were told."""
