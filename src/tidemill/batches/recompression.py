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
from tidemill.batches.compression import Codec, CompressionError, TooLarge, compress, decompress
from tidemill.batches.records import OPENED_BYTES_MAX
from tidemill.model import errors
from tidemill.model.topic_config import TopicConfig

RECOMPRESSED_BYTES_MAX: Final = 64 << 20  # for one request, because small batches can decompress to far more bytes
SMALL_BYTES_MAX: Final = 4 << 20  # of memory that a request takes without taking turns with others

_LZ4_DEFAULT_LEVEL: Final = 9  # Kafka's default level, at which Kafka uses the fast LZ4 algorithm
_LZ4_FAST: Final = 0
_LZ4_SLOW_MIN: Final = 3  # the lowest level at which liblz4 uses its slow algorithm


class Compression(NamedTuple):
    """The codec in which a topic's batches are stored, and the level at which the broker compresses."""

    codec: Codec
    level: int | None = None


class NoRoom(Exception):
    """A batch takes more memory than there is for it now; it may be recompressed when there is more."""


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


def recompress_all(
    asked: Sequence[Recompression], bytes_max: int | None = None
) -> list[bytearray | BatchProblem] | None:
    """
    Return, for each batch of one request, the recompressed batch or the reason why the batch is rejected.  Return None
    if `bytes_max` is given, and that takes more bytes: for the results and one batch without compression.
    """
    results: list[bytearray | BatchProblem] = []
    size = 0
    for recompression in asked:
        try:
            result = recompress(recompression, None if bytes_max is None else bytes_max - size)
        except NoRoom:
            return None
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


def recompress(asked: Recompression, bytes_max: int | None = None) -> bytearray | BatchProblem:
    """
    Return the batch in the requested codec, or the reason why it must be rejected.  Raise NoRoom if `bytes_max` is
    given, and the batch has more bytes without compression.

    Without compression, the batch is in memory once.  Of the result, nothing is kept if it is too large.
    """
    batch, (codec, level) = asked.batch, asked.compression
    opened: bytearray | None = None
    if bytes_max is not None and len(batch) > bytes_max:
        raise NoRoom
    if has_other_codec(batch, Codec.NONE):
        header = checked_header(batch, is_log_append_time=True)  # verify the CRC: the new CRC would hide damage
        if isinstance(header, BatchProblem):
            return header
        size_max = min(asked.size_max, OPENED_BYTES_MAX) if codec == Codec.NONE else OPENED_BYTES_MAX
        room = size_max if bytes_max is None else min(size_max, bytes_max)
        try:
            with memoryview(batch) as view:
                opened = _plain(header, decompress(header.codec, view[HEADER_BYTES:], room))
        except TooLarge as error:
            if room < size_max:
                raise NoRoom from None
            return BatchProblem(errors.MESSAGE_TOO_LARGE, f"{error}: send smaller batches")
        except CompressionError as error:
            return BatchProblem(errors.CORRUPT_MESSAGE, f"the batch cannot be decompressed: {error}")
    plain = batch if opened is None else opened
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
    result: bytearray | None
    if codec == Codec.NONE and opened is not None:
        result = opened if len(opened) <= asked.size_max else None
    else:
        result = _compressed(plain, codec, level, asked.size_max)
    if result is None:
        return BatchProblem(
            errors.MESSAGE_TOO_LARGE,
            f"the batch has {len(batch)} B as sent and more in the codec of the topic (compression.type) than "
            f"max.message.bytes={asked.size_max} allows: send smaller batches, or raise it",
        )
    _stamp(result, header, codec)
    return result


def _plain(header: BatchHeader, records: bytes | bytearray) -> bytearray:
    """Return a batch with the fields of `header` and these records, which are not copied if they are a bytearray."""
    batch = records if isinstance(records, bytearray) else bytearray(records)
    batch[:0] = bytes(HEADER_BYTES)
    _stamp(batch, header, Codec.NONE)
    return batch


def _compressed(plain: Buffer, codec: Codec, level: int | None, size_max: int) -> bytearray | None:
    """Return a batch with the records of `plain` and room for its header; None if it is too large."""
    batch = bytearray(HEADER_BYTES)
    with memoryview(plain) as view:
        try:
            batch += compress(codec, view[HEADER_BYTES:], level, max(size_max - HEADER_BYTES, 0))
        except TooLarge:
            return None
    return batch


def _stamp(batch: bytearray, header: BatchHeader, codec: Codec) -> None:
    """Write the fields of `header` into a batch, with its own length, codec and CRC."""
    attributes = header.attributes & ~CODEC_MASK | codec
    write_header(batch, header._replace(batch_length=len(batch) - LENGTH_BYTES, attributes=attributes))
    stamp_crc(batch)
