"""Which broker leads which shard: tables, hints, waiters, transfers and balance."""
