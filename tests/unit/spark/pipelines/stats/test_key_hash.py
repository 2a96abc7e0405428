"""The hash of keys, and what it shows about other numbers of partitions."""

import pyarrow as pa

from tidemill.spark.pipelines.stats import key_hash

# Keys and their murmur2 hashes, from Kafka's own test of the hash.
HASHES = {
    b"21": -973_932_308,
    b"foobar": -790_332_482,
    b"a-little-bit-long-string": -985_981_536,
    b"a-little-bit-longer-string": -1_486_304_829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58_897_971,
    b"abc": 479_470_107,
}


def test_the_buckets_are_those_of_javas_hash() -> None:
    """
    The bucket of a key is the hash of Kafka's Java client, without the sign bit, modulo 256.
    """
    assert {key: (value & 0x7FFFFFFF) % 256 for key, value in HASHES.items()} == {
        key: key_hash.bucket_of(key) for key in HASHES
    }


def test_rows_of_keys_become_rows_of_buckets() -> None:
    """
    The column `key` is replaced by the bucket of the key, and the counts are unchanged.
    """
    rows = pa.record_batch({"key": [b"UA", b"B6"], "records": [3, 4], "bytes": [30, 40]})

    (found,) = key_hash.in_buckets(iter([rows]))

    assert [key_hash.bucket_of(b"UA"), key_hash.bucket_of(b"B6")] == found.column("bucket").to_pylist()
    assert pa.int32() == found.schema.field("bucket").type
    assert ([3, 4], [30, 40]) == (found.column("records").to_pylist(), found.column("bytes").to_pylist())


def test_the_fullest_partition_of_every_split_is_found() -> None:
    """
    A topic with n partitions stores the keys of hash bucket b in partition b modulo n.  For every n, the partition
    that would store the most records is found.
    """
    records = [0] * key_hash.BUCKET_COUNT
    records[1], records[3], records[5] = 10, 20, 30

    splits = key_hash.splits(records)

    assert [2, 4, 8, 16, 32, 64, 128, 256] == [split.partition_count for split in splits]
    assert [60, 40, 30] == [split.records_max for split in splits[:3]]
    assert [2.0, 40 * 4 / 60, 4.0] == [split.imbalance for split in splits[:3]]
    assert [] == key_hash.splits([0] * key_hash.BUCKET_COUNT)
