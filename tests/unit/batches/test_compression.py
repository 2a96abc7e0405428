"""Codecs and their caps."""

import struct

import cramjam
import lz4.frame
import pytest
import zstandard
from aiokafka.codec import snappy_decode, snappy_encode
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.batches.compression import Codec, CompressionError, compress, decompress

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"tide mill " * 20_000


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=30)
@given(data=st.binary(min_size=1, max_size=3_000), repeats=st.integers(1, 60))
def test_what_was_compressed_unfolds_to_itself(codec, data, repeats):
    """Parts are joined; any kind of buffer will do."""
    whole = data * repeats

    unfolded = [
        decompress(codec, compress(codec, [memoryview(data)] * repeats), len(whole)),
        decompress(codec, memoryview(compress(codec, bytearray(whole)))),
    ]

    assert [whole, whole] == unfolded


@pytest.mark.parametrize("codec", list(Codec))
def test_the_cap_is_exact(codec):
    """`size_max` bytes pass, one more does not."""
    folded = compress(codec, TEXT)

    unfolded = decompress(codec, folded, len(TEXT))

    assert unfolded == TEXT
    with pytest.raises(CompressionError, match="more than 199999 bytes"):
        decompress(codec, folded, len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_stopped_at_the_cap(codec):
    """256 MiB of zeros never come into being."""
    bomb = compress(codec, bytes(64 << 20)) if codec != Codec.ZSTD else zstandard.compress(bytes(256 << 20))

    with pytest.raises(CompressionError, match="more than 1048576 bytes"):
        decompress(codec, bomb, 1 << 20)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_frames_that_follow_each_other_are_all_read(codec):
    """The libraries' one-shot calls stop after the first; the cap holds over all of them."""
    folded = compress(codec, TEXT) + compress(codec, b"and more")

    unfolded = decompress(codec, folded)

    assert unfolded == TEXT + b"and more"
    with pytest.raises(CompressionError, match="more than"):
        decompress(codec, folded, len(TEXT) + 7)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_too_many_frames_are_refused(codec):
    """Each would cost a copy of all that follows it."""
    folded = compress(codec, b"x") * 65

    with pytest.raises(CompressionError, match="more than 64"):
        decompress(codec, folded)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_data_that_are_cut_short_are_refused(codec):
    """At every byte: half a frame is damage, not a short frame."""
    folded = compress(codec, b"some text, some text" * 9)

    for end in range(len(folded)):
        with pytest.raises(CompressionError):
            decompress(codec, folded[:end])


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=50)
@given(noise=st.binary(min_size=1, max_size=200), place=st.floats(0, 1))
def test_damage_is_one_kind_of_error(codec, noise, place):
    """Whatever a library raises becomes CompressionError; damage that it cannot see stays within the cap."""
    folded = bytearray(compress(codec, TEXT[:5_000]))
    start = int(place * (len(folded) - 1))
    folded[start : start + len(noise)] = noise

    try:
        unfolded = decompress(codec, folded, 10_000)
    except CompressionError:
        unfolded = b""

    assert len(unfolded) <= 10_000


def test_zstd_frames_without_a_content_size_are_read():
    """Java's producer streams, and so does not know the size when it writes the header."""
    stream = zstandard.ZstdCompressor().compressobj()
    folded = stream.compress(TEXT) + stream.flush()

    unfolded = decompress(Codec.ZSTD, folded)

    assert unfolded == TEXT
    with pytest.raises(CompressionError, match="more than"):
        decompress(Codec.ZSTD, folded, len(TEXT) - 1)


def test_zstd_windows_beyond_eight_mebibytes_are_refused():
    """A window is memory that the sender makes us take."""
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    folded = stream.compress(TEXT) + stream.flush()

    with pytest.raises(CompressionError, match="zstd"):
        decompress(Codec.ZSTD, folded)


def test_snappy_is_read_as_java_writes_it_and_as_others_do():
    """Both ways against aiokafka's xerial framing, and one raw block without any."""
    theirs = snappy_encode(TEXT, xerial_compatible=True, xerial_blocksize=32 * 1024)
    raw = bytes(cramjam.snappy.compress_raw(TEXT))

    found = [
        decompress(Codec.SNAPPY, theirs),
        decompress(Codec.SNAPPY, raw),
        bytes(snappy_decode(compress(Codec.SNAPPY, TEXT))),
    ]

    assert found == [TEXT, TEXT, TEXT]


@pytest.mark.parametrize("length", [-1, 0, 1 << 30])
def test_xerial_block_lengths_are_not_believed(length):
    """CVE-2023-34455: a block length beyond the data."""
    folded = bytearray(compress(Codec.SNAPPY, TEXT))
    struct.pack_into(">i", folded, 16, length)

    with pytest.raises(CompressionError, match="claims"):
        decompress(Codec.SNAPPY, folded)


def test_a_raw_snappy_block_that_claims_four_gigabytes_is_refused_before_they_are_allocated():
    """The size comes first in the block."""
    with pytest.raises(CompressionError, match="more than"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20), 1 << 20)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec):
    """Three bits leave room for three that nobody has defined."""
    with pytest.raises(CompressionError, match="unknown"):
        decompress(codec, b"x")
    with pytest.raises(CompressionError, match="unknown"):
        compress(codec, b"x")


def test_others_lz4_frames_are_read():
    """Linked blocks, checksums, no content size: what librdkafka and Java choose."""
    folded = lz4.frame.compress(
        TEXT, block_linked=True, content_checksum=True, block_checksum=True, store_size=False, block_size=4
    )

    unfolded = decompress(Codec.LZ4, folded)

    assert unfolded == TEXT
