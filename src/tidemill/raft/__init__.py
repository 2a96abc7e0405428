"""One replicated log, pure.  Entrance: `raft.replica`."""
