"""Maps a group id to its partition of `__consumer_offsets` by Kafka's rule, so that Kafka's tools find the group."""


def partition_for(group_id: str, partition_count: int) -> int:
    """
    Return the group's partition: the absolute value of Java's `String.hashCode` of the group id, modulo
    `partition_count`.  Java computes the hash over UTF-16 code units.
    """
    units = group_id.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for at in range(0, len(units), 2):
        hashed = (hashed * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    # Take the absolute value of the signed hash as Kafka's Utils.abs does: the most negative int becomes 0.
    if hashed >= 1 << 31:
        hashed = (1 << 32) - hashed if hashed > 1 << 31 else 0
    return hashed % partition_count
