"""Compression codecs and the limit on decompressed bytes."""

import struct
import tracemalloc
from random import Random

import cramjam
import lz4.frame
import pytest
import zstandard
from aiokafka.codec import snappy_decode, snappy_encode
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.batches.compression import Codec, CompressionError, TooLarge, compress, decompress

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"tide mill " * 20_000


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=30)
@given(data=st.binary(min_size=1, max_size=3_000), repeats=st.integers(1, 60))
def test_decompression_is_the_inverse_of_compression(codec, data, repeats):
    """Decompression restores the compressed parts, concatenated, from any type of buffer."""
    whole = data * repeats

    unfolded = [
        decompress(codec, compress(codec, [memoryview(data)] * repeats), len(whole)),
        decompress(codec, memoryview(compress(codec, bytearray(whole)))),
    ]

    assert [whole, whole] == unfolded


@pytest.mark.parametrize("codec", list(Codec))
def test_the_size_limit_is_exact(codec):
    """The limit allows exactly `size_max` decompressed bytes and refuses one more."""
    folded = compress(codec, TEXT)

    unfolded = decompress(codec, folded, len(TEXT))

    assert unfolded == TEXT
    with pytest.raises(CompressionError, match="more than 199999 bytes"):
        decompress(codec, folded, len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_of_a_bomb_stops_at_the_limit(codec):
    """Decompression of a bomb stops at the limit, instead of allocating 256 MiB of zeros."""
    bomb = compress(codec, bytes(64 << 20)) if codec != Codec.ZSTD else zstandard.compress(bytes(256 << 20))

    with pytest.raises(CompressionError, match="more than 1048576 bytes"):
        decompress(codec, bomb, 1 << 20)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_all_concatenated_frames_are_read(codec):
    """
    All concatenated frames are read, although the libraries' one-shot calls stop after the first one.  The limit
    applies to all frames together.
    """
    folded = compress(codec, TEXT) + compress(codec, b"and more")

    unfolded = decompress(codec, folded)

    assert unfolded == TEXT + b"and more"
    with pytest.raises(CompressionError, match="more than"):
        decompress(codec, folded, len(TEXT) + 7)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_too_many_frames_are_refused(codec):
    """The number of frames is limited, because each frame costs a copy of all data after it."""
    folded = compress(codec, b"x") * 65

    with pytest.raises(CompressionError, match="more than 64"):
        decompress(codec, folded)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_truncated_data_is_refused(codec):
    """Data truncated at any byte is refused as damaged, and never read as a shorter frame."""
    folded = compress(codec, b"some text, some text" * 9)

    for end in range(len(folded)):
        with pytest.raises(CompressionError):
            decompress(codec, folded[:end])


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=50)
@given(noise=st.binary(min_size=1, max_size=200), place=st.floats(0, 1))
def test_damaged_data_raises_compression_error_only(codec, noise, place):
    """Errors of the libraries become CompressionError.  Output from undetected damage stays within the limit."""
    folded = bytearray(compress(codec, TEXT[:5_000]))
    start = int(place * (len(folded) - 1))
    folded[start : start + len(noise)] = noise

    try:
        unfolded = decompress(codec, folded, 10_000)
    except CompressionError:
        unfolded = b""

    assert len(unfolded) <= 10_000


def test_zstd_frames_without_a_content_size_are_read():
    """Frames without a content size are read: Java's producer streams and does not know the size in advance."""
    stream = zstandard.ZstdCompressor().compressobj()
    folded = stream.compress(TEXT) + stream.flush()

    unfolded = decompress(Codec.ZSTD, folded)

    assert unfolded == TEXT
    with pytest.raises(CompressionError, match="more than"):
        decompress(Codec.ZSTD, folded, len(TEXT) - 1)


def test_zstd_windows_beyond_eight_mebibytes_are_refused():
    """
    Zstd windows beyond 8 MiB are refused, because the window size determines how much memory the reader allocates.
    """
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    folded = stream.compress(TEXT) + stream.flush()

    with pytest.raises(CompressionError, match="zstd"):
        decompress(Codec.ZSTD, folded)


def test_snappy_is_read_with_and_without_xerial_framing():
    """Snappy data is read both as a raw block and with xerial framing, which is compatible with aiokafka's in both
    directions.
    """
    theirs = snappy_encode(TEXT, xerial_compatible=True, xerial_blocksize=32 * 1024)
    raw = bytes(cramjam.snappy.compress_raw(TEXT))

    found = [
        decompress(Codec.SNAPPY, theirs),
        decompress(Codec.SNAPPY, raw),
        bytes(snappy_decode(compress(Codec.SNAPPY, TEXT))),
    ]

    assert found == [TEXT, TEXT, TEXT]


@pytest.mark.parametrize("length", [-1, 0, 1 << 30])
def test_an_invalid_xerial_block_length_is_refused(length):
    """A block length beyond the end of the data is refused (CVE-2023-34455)."""
    folded = bytearray(compress(Codec.SNAPPY, TEXT))
    struct.pack_into(">i", folded, 16, length)

    with pytest.raises(CompressionError, match="a block has a length of"):
        decompress(Codec.SNAPPY, folded)


def test_a_raw_snappy_block_of_four_gigabytes_is_refused_before_memory_is_allocated():
    """
    A raw block whose first bytes announce a size of four gigabytes is refused before memory is allocated.
    """
    with pytest.raises(CompressionError, match="more than"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20), 1 << 20)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec):
    """The three unassigned values of the codec field are refused."""
    with pytest.raises(CompressionError, match="unknown"):
        decompress(codec, b"x")
    with pytest.raises(CompressionError, match="unknown"):
        compress(codec, b"x")


def test_lz4_frames_of_other_clients_are_read():
    """
    LZ4 frames as librdkafka and Java write them are read: with linked blocks, with checksums, and without a content
    size.
    """
    folded = lz4.frame.compress(
        TEXT, block_linked=True, content_checksum=True, block_checksum=True, store_size=False, block_size=4
    )

    unfolded = decompress(Codec.LZ4, folded)

    assert unfolded == TEXT


@pytest.mark.parametrize("level", [-131_072, -1, 1, 19, 20, 22])
def test_every_level_of_zstd_can_be_read_again(level):
    """At every level, zstd's window stays within 8 MiB, the largest window that the broker and many clients read."""
    block = bytes(9 << 20)

    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, block, level)) == block


@pytest.mark.parametrize("level", [1, 3, 9, 12, 17])
def test_lz4_is_written_in_independent_blocks(level):
    """
    Java's clients refuse blocks that depend on earlier ones; bit 5 of the frame's flags indicates independent blocks.
    """
    frame = compress(Codec.LZ4, b"tide mill " * 20_000, level)

    assert (b"\x04\x22\x4d\x18", 1) == (frame[:4], frame[4] >> 5 & 1)


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (0, 1, 6)), (Codec.LZ4, (0, 3, 12)), (Codec.ZSTD, (-5, 3, 19))]
)
def test_a_higher_level_makes_the_data_smaller(codec, levels):
    """The level reaches the library: on data with some redundancy, levels that are far apart differ in size."""
    squares = b" ".join(b"%d" % (number * number) for number in range(20_000))

    sizes = [len(compress(codec, squares, level)) for level in levels]

    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("data", "size_max"), [(TEXT * 20, 1_000_000), (Random(1).randbytes(600_000), 1 << 20)])
def test_the_limit_of_compression_is_exact(codec, data, size_max):
    """
    A result that is larger than the limit is not returned.  What is compressed piece by piece because of a limit can be
    read as any other.
    """
    size = len(compress(codec, data, size_max=size_max))

    assert data == decompress(codec, compress(codec, data, size_max=size))
    with pytest.raises(TooLarge):
        compress(codec, data, size_max=size - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_compression_ends_at_its_limit(codec):
    """No more than the limit is in memory of a result that is too large."""
    data = Random(1).randbytes(16 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            compress(codec, data, size_max=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4 << 20


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_takes_little_memory_beside_its_result(codec):
    """A list of parts that is joined would take the memory twice, and so would a copy of the result."""
    size = 24 << 20
    folded = compress(codec, bytes(size))

    tracemalloc.start()
    try:
        unfolded = decompress(codec, folded)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size == len(unfolded)
    assert peak < size * 9 // 8 + (4 << 20)  # a bytearray that grows reserves an eighth, which is not resident


@pytest.mark.parametrize("codec", CODECS)
def test_data_in_many_parts_is_read_as_a_whole(codec):
    """
    Frames that begin and end between the pieces that the libraries are fed are joined, and refused if the last one is
    truncated at the end of a piece or near it.
    """
    noise = Random(1).randbytes(400_000)
    frames = [noise + bytes(3 << 20), b"and more", noise]
    folded = compress(codec, frames) if codec == Codec.SNAPPY else b"".join(compress(codec, it) for it in frames)

    assert b"".join(frames) == decompress(codec, folded)
    for end in (256 << 10, (256 << 10) - 1, (256 << 10) + 1, len(folded) - 70_000, len(folded) - 1):
        with pytest.raises(CompressionError, match="damaged"):
            decompress(codec, folded[:end])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [306_888, 349_624, 749_126])
def test_data_that_becomes_a_little_smaller_is_read(codec, size):
    """
    Decompressed parts then end where pieces that the libraries are fed begin a block, of which they give nothing yet.
    """
    whole = bytes(Random(28).choices(range(16), k=size))

    assert whole == decompress(codec, compress(codec, whole))
