"""The protocol between two brokers below the level of shards, free of I/O.  Entry point: `peer.session`."""
