"""Work that repeats in the background: retention, membership of shards, and the balance of leaders."""
