"""Share partitions (KIP-932): what share groups have done with the records of a partition; see `partition_shares`."""
