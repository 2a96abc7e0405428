"""Recompresses a producer's batch with the codec of its topic (`compression.type`), with Kafka's semantics.

Only the compression changes: the records are the same bytes after decompression, and the header keeps every field
except the batch length, the codec and the CRC.  The checks are the same as in `checked_header`, so a batch that would
be rejected if it were stored as sent is rejected here, too.  The records of a compressed batch are checked as well.

The functions can take seconds for a large batch, so they run off the event loop.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.batches.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LENGTH_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    Buffer,
    read_header,
    stamp_crc,
    write_header,
)
from tidemill.batches.check import BatchProblem, checked_header
from tidemill.batches.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    CompressionError,
    TooLarge,
    compress,
    decompress,
)
from tidemill.model import errors
from tidemill.model.topic_config import TopicConfig

RECOMPRESSED_BYTES_MAX: Final = 64 << 20  # for one request, because small batches can decompress to far more bytes

_LZ4_DEFAULT_LEVEL: Final = 9  # Kafka's default level, at which Kafka uses the fast LZ4 algorithm
_LZ4_FAST: Final = 0
_LZ4_SLOW_MIN: Final = 3  # the lowest level at which liblz4 uses its slow algorithm


class Compression(NamedTuple):
    """The codec in which a topic's batches are stored, and the level at which the broker compresses."""

    codec: Codec
    level: int | None = None


class Recompression(NamedTuple):
    """A batch to recompress, and the limits that apply to it: see `checked_header`."""

    batch: Buffer
    compression: Compression
    size_max: int  # max.message.bytes
    timestamp_min: int | None = None
    timestamp_max: int | None = None
    is_log_append_time: bool = False


def compression_of(config: TopicConfig) -> Compression | None:
    """Return the compression that `compression.type` requires; None for `producer`, which keeps batches as sent."""
    match config.compression_type:
        case "producer":
            return None
        case "gzip":
            return Compression(Codec.GZIP, config.compression_gzip_level)
        case "lz4":
            level = config.compression_lz4_level
            return Compression(Codec.LZ4, _LZ4_FAST if level == _LZ4_DEFAULT_LEVEL else max(level, _LZ4_SLOW_MIN))
        case "zstd":
            return Compression(Codec.ZSTD, config.compression_zstd_level)
        case "snappy":
            return Compression(Codec.SNAPPY)
        case _:
            return Compression(Codec.NONE)


def has_other_codec(batch: Buffer, codec: Codec) -> bool:
    """Return whether `batch` is compressed with another codec.  False if `batch` is not a batch at all."""
    return len(batch) >= HEADER_BYTES and batch[MAGIC_POSITION] == MAGIC and batch[CRC_START + 1] & CODEC_MASK != codec


def recompress_all(asked: Sequence[Recompression]) -> list[bytearray | BatchProblem]:
    """Return, for each batch of one request, the recompressed batch or the reason why the batch is rejected."""
    results: list[bytearray | BatchProblem] = []
    size = 0
    for recompression in asked:
        result = recompress(recompression)
        if not isinstance(result, BatchProblem):
            size += len(result)
            if size > RECOMPRESSED_BYTES_MAX:
                size -= len(result)
                result = BatchProblem(
                    errors.MESSAGE_TOO_LARGE,
                    f"the request's batches have more than {RECOMPRESSED_BYTES_MAX} B in the codecs of their topics "
                    "(compression.type): send smaller requests",
                )
        results.append(result)
    return results


def recompress(asked: Recompression) -> bytearray | BatchProblem:
    """Return the batch in the requested codec, or the reason why it must be rejected."""
    batch, (codec, level) = asked.batch, asked.compression
    plain: Buffer = batch
    if has_other_codec(batch, Codec.NONE):
        header = checked_header(batch, is_log_append_time=True)  # verify the CRC: the new CRC would hide damage
        if isinstance(header, BatchProblem):
            return header
        size_max = asked.size_max if codec == Codec.NONE else DECOMPRESSED_BYTES_MAX
        try:
            with memoryview(batch) as view:
                records = decompress(header.codec, view[HEADER_BYTES:], min(size_max, DECOMPRESSED_BYTES_MAX))
        except TooLarge as error:
            return BatchProblem(errors.MESSAGE_TOO_LARGE, f"{error}: send smaller batches")
        except CompressionError as error:
            return BatchProblem(errors.CORRUPT_MESSAGE, f"the batch cannot be decompressed: {error}")
        plain = _batch(header, Codec.NONE, records)
    header = checked_header(
        plain,
        timestamp_min=asked.timestamp_min,
        timestamp_max=asked.timestamp_max,
        is_log_append_time=asked.is_log_append_time,
    )
    if isinstance(header, BatchProblem):
        if header.max_timestamp is None:
            return header
        header = read_header(plain)._replace(max_timestamp=header.max_timestamp)
    with memoryview(plain) as view:
        result = _batch(header, codec, compress(codec, view[HEADER_BYTES:], level))
    if len(result) > asked.size_max:
        return BatchProblem(
            errors.MESSAGE_TOO_LARGE,
            f"the batch has {len(batch)} B as sent and {len(result)} B in the codec of the topic (compression.type); "
            f"max.message.bytes is {asked.size_max}: send smaller batches, or raise it",
        )
    return result


def _batch(header: BatchHeader, codec: Codec, payload: bytes | bytearray) -> bytearray:
    """Return a batch with the fields of `header` and the compressed records `payload`."""
    batch = bytearray(HEADER_BYTES)
    attributes = header.attributes & ~CODEC_MASK | codec
    batch_length = HEADER_BYTES - LENGTH_BYTES + len(payload)
    write_header(batch, header._replace(batch_length=batch_length, attributes=attributes))
    batch += payload
    stamp_crc(batch)
    return batch
