"""Decides whether a partition stores a producer's batch with another codec, and which limits the result must meet."""

from tidemill.batches.recompression import Recompression, has_other_codec
from tidemill.shard.append import LONG_MAX
from tidemill.shard.partition import Partition


def must_recompress(partition: Partition, batch: memoryview) -> bool:
    """
    Return whether `batch` must be recompressed before it is appended.  False if `batch` is too large or not a batch:
    `append_batch` then rejects it.
    """
    compression = partition.compression
    return (
        compression is not None
        and len(batch) <= partition.config.max_message_bytes
        and has_other_codec(batch, compression.codec)
    )


def recompression_of(partition: Partition, batch: memoryview, now_ms: int) -> Recompression:
    """
    Return the recompression of a `batch` for which `must_recompress` has returned True.  `now_ms` is wall-clock time.
    """
    compression, config = partition.compression, partition.config
    assert compression is not None, "the partition stores batches as they were sent"
    before_max, after_max = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return Recompression(
        batch,
        compression,
        size_max=config.max_message_bytes,
        timestamp_min=None if before_max == LONG_MAX else now_ms - before_max,
        timestamp_max=None if after_max == LONG_MAX else now_ms + after_max,
        is_log_append_time=config.is_log_append_time,
    )
