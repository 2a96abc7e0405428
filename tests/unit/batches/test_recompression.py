"""Recompression changes the codec of a batch and nothing else, and refuses what it cannot read."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.batches.record_strategies import record_lists
from tidemill.batches import recompression
from tidemill.batches.batch import HEADER_BYTES, crc_matches, read_header, stamp_crc
from tidemill.batches.builder import build_batch
from tidemill.batches.check import BatchProblem
from tidemill.batches.compression import Codec, compress, decompress
from tidemill.batches.recompression import (
    Compression,
    Recompression,
    compression_of,
    has_other_codec,
    recompress,
    recompress_all,
)
from tidemill.batches.records import Record, read_records
from tidemill.model import errors
from tidemill.model.topic_config import compile_topic_config

LARGE = 1 << 30
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
RECORDS = [Record(b"key", b"value" * 40, (("name", b"content"),), 1_000 + n) for n in range(3)]


def recompressed(batch, codec, *, size_max=LARGE, **bounds):
    return recompress(Recompression(memoryview(batch), Compression(codec), size_max, **bounds))


def refused(batch, codec=Codec.GZIP, **bounds):
    """Return the name of the error code and the message of a refusal."""
    found = recompressed(batch, codec, **bounds)
    assert isinstance(found, BatchProblem), "the batch was recompressed"
    return errors.name(found.error_code), found.message


def block_of(batch):
    """Return the bytes of the records after decompression."""
    return decompress(read_header(batch).codec, memoryview(batch)[HEADER_BYTES:])


def with_payload(batch, payload):
    """Return the batch with different compressed records and a matching length and CRC."""
    changed = bytearray(batch[:HEADER_BYTES]) + payload
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    stamp_crc(changed)
    return changed


@pytest.mark.parametrize("target", list(Codec))
@pytest.mark.parametrize("source", list(Codec))
@settings(max_examples=15)
@given(
    records=record_lists,
    leader_epoch=st.integers(-1, 1 << 20),
    producer=st.none() | st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 14), st.integers(0, 1 << 30)),
    is_transactional=st.booleans(),
)
def test_only_the_codec_changes(source, target, records, leader_epoch, producer, is_transactional):
    """The records are the same bytes, and the header keeps all fields but batch length, codec and CRC."""
    fields = dict(zip(("producer_id", "producer_epoch", "base_sequence"), producer, strict=True)) if producer else {}
    batch = build_batch(
        records,
        codec=source,
        leader_epoch=leader_epoch,
        is_transactional=is_transactional and producer is not None,
        **fields,
    )
    sent = bytes(batch)

    stored = recompressed(batch, target)

    header = read_header(stored)
    own = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert header._replace(**own) == read_header(batch)._replace(**own)
    assert header.attributes == read_header(batch).attributes & ~7 | target
    assert (block_of(stored), header.size_bytes) == (block_of(batch), len(stored))
    assert crc_matches(stored)
    assert bytes(batch) == sent, "the request's bytes were changed"


@pytest.mark.parametrize("level", [-1, 1, 9])
def test_gzip_s_level_is_used(level):
    """The topic's gzip level is used; -1 selects zlib's default."""
    block = b"".join(b"%d,%d;" % (n, n * n % 977) for n in range(3_000))
    batch = build_batch([(None, block, (), 0)])

    (stored,) = recompress_all([Recompression(batch, Compression(Codec.GZIP, level), LARGE)])

    assert block_of(stored) == block_of(batch)
    assert bytes(stored[HEADER_BYTES:]) == compress(Codec.GZIP, block_of(batch), level)


@pytest.mark.parametrize(
    ("settings_", "expected"),
    [
        ({}, None),
        ({"compression.type": "producer", "compression.gzip.level": "1"}, None),
        ({"compression.type": "uncompressed"}, (Codec.NONE, None)),
        ({"compression.type": "snappy"}, (Codec.SNAPPY, None)),
        ({"compression.type": "gzip"}, (Codec.GZIP, -1)),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, (Codec.GZIP, 9)),
        ({"compression.type": "lz4"}, (Codec.LZ4, 0)),
        ({"compression.type": "lz4", "compression.lz4.level": "1"}, (Codec.LZ4, 3)),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, (Codec.LZ4, 17)),
        ({"compression.type": "zstd"}, (Codec.ZSTD, 3)),
        ({"compression.type": "zstd", "compression.zstd.level": "-131072"}, (Codec.ZSTD, -131_072)),
        ({"compression.type": "zstd", "compression.zstd.level": "22"}, (Codec.ZSTD, 22)),
    ],
)
def test_the_topic_s_settings_name_codec_and_level(settings_, expected):
    """
    A topic's settings determine the codec and its level.  For lz4, level 9, Kafka's default, selects the fast method,
    and all other levels the slow one.
    """
    assert expected == compression_of(compile_topic_config(settings_))


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_in_the_topic_s_codec_is_kept(codec):
    """
    Only a batch that is not in the topic's codec is recompressed.  Data that is not a batch is left to the check that
    refuses it.
    """
    batch = build_batch(RECORDS, codec=codec)

    assert [codec] == [target for target in Codec if not has_other_codec(batch, target)]
    assert not has_other_codec(batch[:60], Codec(4 - codec))
    batch[16] = 1
    assert not has_other_codec(batch, Codec(4 - codec) if codec != 2 else Codec.GZIP)


@pytest.mark.parametrize("source", COMPRESSED)
def test_records_that_cannot_be_decompressed_are_corrupt(source):
    """A batch whose compressed data is damaged is refused, even though its CRC matches."""
    batch = build_batch(RECORDS, codec=source)
    damaged = with_payload(batch, bytes(batch[HEADER_BYTES:-4]))

    code, message = refused(damaged, Codec.NONE)

    assert code == "CORRUPT_MESSAGE"
    assert f"the batch cannot be decompressed: the {source.name.lower()} data is damaged" in message


@pytest.mark.parametrize("source", list(Codec))
def test_a_wrong_crc_is_found_before_it_is_replaced(source):
    """A record damaged in transit is refused, because recompression computes a new CRC that would hide the damage."""
    batch = build_batch(RECORDS, codec=source)
    batch[-1] ^= 1

    assert refused(batch, Codec.GZIP if source != Codec.GZIP else Codec.ZSTD)[0] == "CORRUPT_MESSAGE"


@pytest.mark.parametrize("source", COMPRESSED)
def test_malformed_records_in_a_compressed_batch_are_refused(source):
    """
    Recompression refuses malformed records, because a compressed batch that is stored as sent is never decompressed.
    """
    batch = build_batch(RECORDS, codec=source)
    changed = with_payload(batch, compress(source, block_of(batch) + b"\0"))

    assert refused(changed, Codec.NONE)[0] == "INVALID_RECORD"


def test_a_codec_that_does_not_exist_is_refused():
    """A batch with one of the unassigned codec numbers, 5 to 7, is refused."""
    batch = build_batch(RECORDS)
    batch[22] |= 5
    stamp_crc(batch)

    assert refused(batch)[0] == "UNSUPPORTED_COMPRESSION_TYPE"


def test_the_size_after_recompression_is_bounded():
    """max.message.bytes bounds the batch as it is stored, as in Kafka; the message names both sizes and the fix."""
    batch = build_batch([(None, bytes(10_000), (), 0)], codec=Codec.ZSTD)
    stored = len(build_batch([(None, bytes(10_000), (), 0)]))

    code, message = refused(batch, Codec.NONE, size_max=1_000)
    found = [refused(build_batch(RECORDS), Codec.GZIP, size_max=HEADER_BYTES)[1]]

    assert (code, "decompress to more than 1000 bytes: send smaller batches" in message) == ("MESSAGE_TOO_LARGE", True)
    assert "than max.message.bytes=61 allows: send smaller batches, or raise it" in found[0]
    assert len(recompressed(batch, Codec.NONE, size_max=stored)) == stored
    assert refused(batch, Codec.NONE, size_max=stored - 1)[0] == "MESSAGE_TOO_LARGE"


def test_a_bomb_is_refused_at_the_limit(monkeypatch):
    """Whatever max.message.bytes is, no batch may decompress to more than the limit that every reader applies."""
    monkeypatch.setattr(recompression, "OPENED_BYTES_MAX", 1 << 20)
    batch = build_batch([(None, bytes(2 << 20), (), 0)], codec=Codec.ZSTD)

    assert refused(batch, Codec.GZIP)[0] == "MESSAGE_TOO_LARGE"
    assert refused(batch, Codec.NONE)[0] == "MESSAGE_TOO_LARGE"


def test_the_batches_of_one_request_are_bounded_together(monkeypatch):
    """The total size after recompression is bounded per request; batches that fit within the bound are kept."""
    batch = build_batch([(None, bytes(10_000), (), 0)], codec=Codec.ZSTD)
    asked = [Recompression(batch, Compression(Codec.NONE), LARGE)] * 3
    monkeypatch.setattr(recompression, "RECOMPRESSED_BYTES_MAX", 25_000)

    results = recompress_all(asked)

    assert [False, False, True] == [isinstance(result, BatchProblem) for result in results]
    assert "send smaller requests" in results[2].message


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_request_that_takes_more_memory_is_given_up(codec):
    """
    A small batch can decompress to megabytes.  How much a request takes is only known meanwhile, and nothing is
    refused because of it.
    """
    batch = build_batch([(None, bytes(10_000), (), 0)], codec=Codec.ZSTD)
    asked = [Recompression(batch, Compression(codec), LARGE)] * 2
    once = len(block_of(batch))
    first = len(recompress_all(asked)[0])

    found = [recompress_all(asked, once + first - 1), recompress_all(asked, once + first)]

    assert (None, recompress_all(asked)) == tuple(found)
    assert recompress_all([Recompression(build_batch(RECORDS), Compression(codec), LARGE)], 100) is None
    assert refused(batch, Codec.NONE, size_max=1_000)[0] == "MESSAGE_TOO_LARGE"


@pytest.mark.parametrize("source", [Codec.NONE, Codec.LZ4])
def test_timestamps_of_all_records_are_checked(source):
    """
    The bounds on timestamps apply to each record, and a wrong max timestamp in the header is corrected, as in Kafka.
    """
    batch = build_batch([(None, b"x", (), stamp) for stamp in (2_000, 1_000, 3_000)], codec=source)
    struct.pack_into(">q", batch, 35, 2_500)
    stamp_crc(batch)

    found = [
        refused(batch, timestamp_min=1_001)[0],
        refused(batch, timestamp_max=2_999)[0],
        read_header(recompressed(batch, Codec.GZIP, timestamp_min=1_000, timestamp_max=3_000)).max_timestamp,
        read_header(recompressed(batch, Codec.GZIP, timestamp_max=0, is_log_append_time=True)).max_timestamp,
    ]

    assert found == ["INVALID_TIMESTAMP", "INVALID_TIMESTAMP", 3_000, 2_500]


def test_records_are_read_back():
    """After recompression, the CLI's reader returns the same records."""
    batch = build_batch(RECORDS, codec=Codec.SNAPPY)

    assert read_records(recompressed(batch, Codec.LZ4)) == read_records(batch)
