"""The protocol between two brokers below the level of shards, without I/O.  Entry point: `peer.session`."""
