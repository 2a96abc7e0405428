"""Serves the records of partitions to share groups, on the partitions' leaders.  The entry point is `share_host`."""
