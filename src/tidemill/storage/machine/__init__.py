"""
Shard state machines: state that a replica derives from the entries of its log; `shard_machine` is the entry point.
"""
