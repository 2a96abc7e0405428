"""The shards on this broker, and the loop that makes their rows durable.  The entry point is `shard_table`."""
