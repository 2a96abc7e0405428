"""The shards on this broker and the loop that does their work; `shard_table` is the entry point."""
