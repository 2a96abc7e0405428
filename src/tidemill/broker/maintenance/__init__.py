"""Periodic background work: retention, membership of shards, and the balance of leaders."""
