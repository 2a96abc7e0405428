"""The compression codecs of record batches, with a limit on the decompressed size.

Compressed data comes from producers and is not trusted.  Decompression is incremental and stops at the limit, so that
8 KiB cannot expand to 256 MiB.  Beside its result, it takes the window of the codec and at most two parts of
`_PART_BYTES_MAX`.  All concatenated frames are read, whereas each library's one-shot call would stop after the first.
Data that ends in the middle of a frame is rejected.

    gzip    members as in RFC 1952
    snappy  written in the framing of Java's SnappyOutputStream ("xerial": a magic, then raw blocks of at most 32 KiB);
            read in that framing or as a single raw block, which some clients send
    lz4     the frame format; written in independent blocks, because Java's clients read no others
    zstd    RFC 8878, with or without a content size; windows up to 8 MiB, the most that levels up to 19 use
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from zstandard import ZstdCompressor

Buffer = bytes | bytearray | memoryview

ZSTD_WINDOW_BYTES_MAX: Final = 8 << 20  # RFC 8878 §3.1.1.1.2 recommends that decoders support 8 MiB, and no more
DECOMPRESSED_BYTES_MAX: Final = 64 << 20  # the default limit, far above the size of any legitimate batch
# Clients write one frame.  The libraries copy what they were fed after a frame: thousands of frames would take seconds.
FRAMES_MAX: Final = 64
_PART_BYTES_MIN: Final = 64 << 10  # of the first part that is decompressed; each further part may double the whole
_PART_BYTES_MAX: Final = 256 << 10
_LARGE_BYTES: Final = 4 << 20  # blocks of this size are not in the heap (`runtime/heap`)
_FED_BYTES: Final = 256 << 10  # fed at a time to libraries that copy what they have not consumed yet


class Codec(IntEnum):
    """The compression of a batch: the numbers in its attributes, and the names in `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionError(ValueError):
    """The codec is unknown, or the data is damaged or decompresses to more than the limit."""


class TooLarge(CompressionError):
    """The data decompresses to more than the limit."""


def compress(
    codec: int, data: Buffer | Sequence[Buffer], level: int | None = None, size_max: int | None = None
) -> bytes:
    """
    Compress `data`; a sequence of parts is concatenated.

    `level` depends on the codec: gzip -1 (its default) to 9, lz4 0 to 16 (fast below 3), zstd -131072 to 22.  Raise
    CompressionError for an unknown codec; TooLarge if the result has more than `size_max` bytes, and take no memory for
    the others.
    """
    whole = data if isinstance(data, bytes | bytearray | memoryview) else b"".join(data)
    if codec != Codec.NONE and codec not in _COMPRESSORS:
        raise CompressionError(f"codec {codec} is unknown")
    if size_max is not None and len(whole) > size_max:
        return _compress_within(codec, whole, level, size_max)
    found = bytes(whole) if codec == Codec.NONE else _COMPRESSORS[codec](whole, level)
    if size_max is not None and len(found) > size_max:
        raise _too_large_compressed(size_max)
    return found


def _compress_within(codec: int, whole: Buffer, level: int | None, size_max: int) -> bytes:
    """Compress piece by piece, and raise TooLarge as soon as the result is too large."""
    if codec == Codec.NONE:
        raise _too_large_compressed(size_max)
    parts: list[bytes] = []
    size = 0
    for part in _compressed_parts(codec, whole, level):
        size += len(part)
        if size > size_max:
            raise _too_large_compressed(size_max)
        parts.append(part)
    return b"".join(parts)


def _compressed_parts(codec: int, whole: Buffer, level: int | None) -> Iterator[bytes]:
    with memoryview(whole) as view:
        if codec == Codec.SNAPPY:
            yield from _snappy_parts(view)
            return
        begin, compressor = _COMPRESSING[codec](len(view), level)
        yield begin
        for start in range(0, len(view), _FED_BYTES):
            yield compressor.compress(view[start : start + _FED_BYTES])
        yield compressor.flush()


def decompress(codec: int, data: Buffer, size_max: int = DECOMPRESSED_BYTES_MAX) -> bytes | bytearray:
    """
    Decompress `data`.

    Raise CompressionError if the codec is unknown, or if the data is damaged, truncated, or decompresses to more than
    `size_max` bytes.
    """
    if codec == Codec.NONE:
        if len(data) > size_max:
            raise _too_large(size_max)
        return bytes(data)
    if codec not in _DECOMPRESSORS:
        raise CompressionError(f"codec {codec} is unknown")
    return _DECOMPRESSORS[codec](data, size_max)


class _Parts:
    """Decompressed parts, each of which is added to the whole at once: a list would need twice the memory to join."""

    def __init__(self, data: Buffer, size_max: int) -> None:
        self.whole: bytes | bytearray = b""
        self._size_max = size_max
        self._first_bytes = min(max(_PART_BYTES_MIN, 4 * len(data)), _PART_BYTES_MAX)

    @property
    def next_bytes(self) -> int:
        """The most bytes that the next part may have; at the end, one more than the limit allows."""
        size = len(self.whole)
        return min(max(self._first_bytes, size), _PART_BYTES_MAX, self._size_max - size + 1)

    def add(self, part: bytes) -> None:
        if len(self.whole) + len(part) > self._size_max:
            self.whole = b""  # a caller that keeps the error, with its frames, does not keep the bytes
            raise _too_large(self._size_max)
        if not self.whole:
            self.whole = part
        else:
            if isinstance(self.whole, bytes):
                self.whole = bytearray(self.whole)
            elif len(self.whole) <= _LARGE_BYTES // 2 < len(self.whole) + len(part):
                # An array that grows out of a heap leaves holes of twice its size there.  A block that was large stays
                # outside of the heap, however small it becomes.
                first, self.whole = self.whole, bytearray(_LARGE_BYTES)
                self.whole.clear()
                self.whole += first
            self.whole += part


class _Compressor(Protocol):
    def compress(self, data: Buffer, /) -> bytes: ...

    def flush(self) -> bytes: ...


def _too_large_compressed(size_max: int) -> TooLarge:
    return TooLarge(f"the records have more than {size_max} bytes when they are compressed")


def _too_large(size_max: int) -> TooLarge:
    return TooLarge(f"the records decompress to more than {size_max} bytes")


def _damaged(codec: Codec, why: object) -> CompressionError:
    return CompressionError(f"the {codec.name.lower()} data is damaged: {why}")


# gzip


def _gzip(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, level if level is not None else zlib.Z_DEFAULT_COMPRESSION, 31)


def _gzipping(_: int, level: int | None) -> tuple[bytes, _Compressor]:
    return b"", zlib.compressobj(level if level is not None else zlib.Z_DEFAULT_COMPRESSION, wbits=31)


def _gunzip(data: Buffer, size_max: int) -> bytes | bytearray:
    parts = _Parts(data, size_max)
    with memoryview(data) as view:
        position = 0
        for _ in range(FRAMES_MAX):
            member = zlib.decompressobj(31)
            while not member.eof:
                fed: Buffer = member.unconsumed_tail
                if not fed:
                    fed = view[position : position + _FED_BYTES]
                    position += len(fed)
                try:
                    part = member.decompress(fed, parts.next_bytes)
                except zlib.error as error:
                    raise _damaged(Codec.GZIP, error) from None
                if not part and not fed:
                    raise _damaged(Codec.GZIP, "it ends in the middle of a member")
                parts.add(part)
            position -= len(member.unused_data)
            if position == len(view):
                return parts.whole
    raise _damaged(Codec.GZIP, f"it has more than {FRAMES_MAX} members")


# snappy

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"  # magic, version 1, lowest compatible version 1
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_BLOCK_LENGTH: Final = Struct(">i")


def _snappy(data: Buffer, level: int | None) -> bytes:
    with memoryview(data) as view:
        return b"".join(_snappy_parts(view))


def _snappy_parts(view: memoryview) -> Iterator[bytes]:
    from cramjam import snappy

    yield _XERIAL_HEADER
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        yield _BLOCK_LENGTH.pack(len(block))
        yield block


def _unsnappy(data: Buffer, size_max: int) -> bytearray:
    """
    Decompress raw blocks.  Each starts with its decompressed size, so the limit is checked before memory is allocated.
    """
    from cramjam import DecompressionError, snappy

    with memoryview(data) as view:
        try:
            size = 0
            for block in _snappy_blocks(view):
                size += snappy.decompress_raw_len(block)
                if size > size_max:
                    raise _too_large(size_max)
            whole = bytearray(size)
            position = 0
            with memoryview(whole) as room:
                for block in _snappy_blocks(view):
                    position += snappy.decompress_raw_into(block, room[position:])
        except DecompressionError as error:
            raise _damaged(Codec.SNAPPY, error) from None
    return whole


def _snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    """Yield the raw blocks of data in xerial framing; without it, all data is one block."""
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield view
        return
    if len(view) < len(_XERIAL_HEADER):
        raise _damaged(Codec.SNAPPY, "its header is truncated")
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + 4 > len(view):
            raise _damaged(Codec.SNAPPY, "it ends in the middle of a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += 4
        if not 0 < length <= len(view) - position:
            raise _damaged(Codec.SNAPPY, f"a block has a length of {length}, but {len(view) - position} bytes are left")
        yield view[position : position + length]
        position += length


# lz4


def _lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    return bytes(lz4.frame.compress(data, compression_level=level or 0, block_linked=False, store_size=False))


def _compressing_lz4(_: int, level: int | None) -> tuple[bytes, _Compressor]:
    import lz4.frame

    compressor = lz4.frame.LZ4FrameCompressor(compression_level=level or 0, block_linked=False)
    return bytes(compressor.begin()), compressor


def _unlz4(data: Buffer, size_max: int) -> bytes | bytearray:
    import lz4.frame

    parts = _Parts(data, size_max)
    with memoryview(data) as view:
        position = 0
        for _ in range(FRAMES_MAX):
            frame = lz4.frame.LZ4FrameDecompressor()
            while not frame.eof:
                is_fed = frame.needs_input  # if not, what was fed last may have begun a block without ending it
                fed = view[position : position + _FED_BYTES] if is_fed else b""
                position += len(fed)
                try:
                    part = frame.decompress(fed, max_length=parts.next_bytes)
                except (RuntimeError, EOFError, ValueError) as error:
                    raise _damaged(Codec.LZ4, error) from None
                if not part and not fed and is_fed:
                    raise _damaged(Codec.LZ4, "it ends in the middle of a frame")
                parts.add(part)
            position -= len(frame.unused_data or b"")
            if position == len(view):
                return parts.whole
    raise _damaged(Codec.LZ4, f"it has more than {FRAMES_MAX} frames")


# zstd


def _zstd(data: Buffer, level: int | None) -> bytes:
    return _zstd_compressor(len(data), level).compress(data)


def _compressing_zstd(size: int, level: int | None) -> tuple[bytes, _Compressor]:
    return b"", _zstd_compressor(size, level).compressobj(size)


def _zstd_compressor(size: int, level: int | None) -> "ZstdCompressor":
    import zstandard

    level = 3 if level is None else level
    parameters = zstandard.ZstdCompressionParameters.from_level(level, source_size=size)
    if 1 << parameters.window_log > ZSTD_WINDOW_BYTES_MAX:  # levels above 19; `decompress` rejects larger windows
        window_log = ZSTD_WINDOW_BYTES_MAX.bit_length() - 1
        parameters = zstandard.ZstdCompressionParameters.from_level(level, source_size=size, window_log=window_log)
    return zstandard.ZstdCompressor(compression_params=parameters)


def _unzstd(data: Buffer, size_max: int) -> bytes | bytearray:
    import zstandard

    _check_zstd_frames(data)  # The library's reader treats a truncated frame as complete.
    parts = _Parts(data, size_max)
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            while part := reader.read(parts.next_bytes):
                parts.add(part)
    except zstandard.ZstdError as error:
        raise _damaged(Codec.ZSTD, error) from None
    return parts.whole


def _check_zstd_frames(data: Buffer) -> None:
    """
    Raise CompressionError unless the last frame ends with the last byte.

    Only the headers of frames and blocks are read (RFC 8878 §3.1.1).
    """
    with memoryview(data) as view:
        end = len(view)
        position = 0
        while position < end:
            magic = int.from_bytes(view[position : position + 4], "little")
            if magic & 0xFFFFFFF0 == 0x184D2A50:  # a skippable frame
                position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
                if position > end:
                    raise _damaged(Codec.ZSTD, "it ends in the middle of a frame")
                continue
            if magic != 0xFD2FB528 or position + 5 > end:
                raise _damaged(Codec.ZSTD, "a frame does not begin with its magic number")
            descriptor = view[position + 4]
            single_segment = descriptor >> 5 & 1
            content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
            position += 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
            is_last = 0
            while not is_last:
                if position + 3 > end:
                    raise _damaged(Codec.ZSTD, "it ends in the middle of a frame")
                block = int.from_bytes(view[position : position + 3], "little")
                is_last = block & 1
                position += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)  # an RLE block stores one byte
            position += 4 * (descriptor >> 2 & 1)  # the content checksum
            if position > end:
                raise _damaged(Codec.ZSTD, "it ends in the middle of a frame")
        if end == 0:
            raise _damaged(Codec.ZSTD, "it is empty")


_COMPRESSORS: Final[dict[int, Callable[[Buffer, int | None], bytes]]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_COMPRESSING: Final[dict[int, Callable[[int, int | None], tuple[bytes, _Compressor]]]] = {
    Codec.GZIP: _gzipping,
    Codec.LZ4: _compressing_lz4,
    Codec.ZSTD: _compressing_zstd,
}
"""Begin with data of some size at some level: return the first bytes, and what compresses pieces."""
_DECOMPRESSORS: Final[dict[int, Callable[[Buffer, int], bytes | bytearray]]] = {
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
