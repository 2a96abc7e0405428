"""Maps a group id to its partition of `__consumer_offsets` by Kafka's rule, so that Kafka's tools find the group."""


def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition: Java's `String.hashCode` (over UTF-16 units), made positive, modulo the partition count."""
    units = group_id.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for at in range(0, len(units), 2):
        hashed = (hashed * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    # Kafka's Utils.abs of the signed value, which maps the most negative int to 0.
    if hashed >= 1 << 31:
        hashed = (1 << 32) - hashed if hashed > 1 << 31 else 0
    return hashed % partition_count
