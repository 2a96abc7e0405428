"""One replicated log, as a pure state machine.  The entry point is `raft.replica`."""
