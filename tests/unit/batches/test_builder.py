"""Other libraries can read batches built by `build_batch`, and Tidemill can read theirs."""

import aiokafka.record.default_records as aio
import kafka.record.default_records as kp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.batches.record_strategies import dated_record_lists, numbered, record_lists
from tidemill.batches.batch import read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.check import checked_header
from tidemill.batches.compression import Codec
from tidemill.batches.records import Record, read_records

# kafka-python would need python-snappy, which is not installed; aiokafka covers snappy.
CODECS_OF = {"aiokafka": list(Codec), "kafka-python": [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]}
READERS = {"aiokafka": aio.DefaultRecordBatch, "kafka-python": kp.DefaultRecordBatch}
BUILDERS = {"aiokafka": aio.DefaultRecordBatchBuilder, "kafka-python": kp.DefaultRecordBatchBuilder}


@pytest.mark.parametrize("library", READERS)
@given(records=record_lists, data=st.data(), base_offset=st.integers(0, 1 << 40))
@settings(max_examples=60)
def test_other_libraries_read_what_we_build(library, records, data, base_offset):
    """aiokafka and kafka-python return every field of every record in our batches, with every codec."""
    codec = data.draw(st.sampled_from(CODECS_OF[library]))
    built = build_batch(records, codec=codec, base_offset=base_offset)

    theirs = READERS[library](bytes(built))

    assert theirs.validate_crc()
    assert numbered(records, base_offset) == [
        Record(r.key, r.value, tuple(r.headers), r.timestamp, r.offset) for r in theirs
    ]


@pytest.mark.parametrize("library", BUILDERS)
@given(records=dated_record_lists, data=st.data(), is_transactional=st.booleans())
@settings(max_examples=60)
def test_we_read_and_accept_what_other_libraries_build(library, records, data, is_transactional):
    """Batches built by kafka-python and aiokafka are valid and readable."""
    codec = data.draw(st.sampled_from(CODECS_OF[library]))
    theirs = BUILDERS[library](2, codec, is_transactional, 7, 1, 3, 1 << 20)
    for offset, record in enumerate(records):
        theirs.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    built = bytes(theirs.build())

    found = read_records(built)

    assert numbered(records) == found
    assert checked_header(built) == read_header(built)
    assert (7, 1, 3, is_transactional) == (*read_header(built)[9:12], read_header(built).is_transactional)


@given(records=dated_record_lists)
@settings(max_examples=30)
def test_an_uncompressed_batch_equals_aiokafkas_byte_for_byte(records):
    """An uncompressed batch equals aiokafka's, because the format determines every byte of it."""
    theirs = aio.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for offset, record in enumerate(records):
        theirs.append(offset, record.timestamp, record.key, record.value, list(record.headers))

    ours = build_batch(records, leader_epoch=0)

    assert bytes(theirs.build())[16:] == bytes(ours)[16:]


def test_an_empty_batch_cannot_be_built():
    """Kafka's clients refuse an empty batch, and without a record it would have no timestamps."""
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_plain_tuples_are_accepted_as_records():
    """A record may be a tuple of key, value, headers and timestamp."""
    built = build_batch([(b"k", None, [("h", None)], 9)], log_append_time=50, codec=Codec.ZSTD)

    found = read_records(built)

    assert [Record(b"k", None, (("h", None),), 50, 0)] == found


@given(records=record_lists, data=st.data())
@settings(max_examples=60)
def test_a_batch_is_built_of_parts(records, data):
    """The batch is the same as if all records had been there at once."""
    ends = sorted(data.draw(st.sets(st.integers(1, len(records)))) | {len(records)})
    first, *further = (records[start:end] for start, end in zip([0, *ends], ends, strict=False))

    assert build_batch(records) == build_batch(first, further=iter(further))
