"""Share partitions (KIP-932): how far share groups have processed the records of a partition; see
`partition_shares`."""
