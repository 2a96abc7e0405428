"""Clients of a simulated cluster, and the history of their requests, answers and reads."""
