"""Conversion of batches to Arrow columns and back."""

import struct
from array import array
from datetime import UTC, datetime
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.batches.record_bytes import append_record
from tests.unit.batches.record_strategies import numbered, record_lists
from tidemill.batches.arrow import (
    batches_from,
    record_batch_from,
    record_batches_from,
    schema,
)
from tidemill.batches.batch import HEADER_BYTES, MalformedBatch, read_header
from tidemill.batches.builder import build_batch
from tidemill.batches.check import checked_header
from tidemill.batches.compression import Codec, CompressionError
from tidemill.batches.control import AbortedTransaction, EndMarker, build_end_marker
from tidemill.batches.records import Record, read_records
from tidemill.batches.row_encoder import RowEncoder

ALL_COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def records_of(rows: pa.RecordBatch) -> list[Record]:
    """Return the rows as records."""
    stamps = rows.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        Record(
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
            stamp // 1000,
            row["offset"],
        )
        for row, stamp in zip(rows.drop_columns("timestamp").to_pylist(), stamps, strict=True)
    ]


def run_of(*lists: list[Record], codec: int = Codec.NONE) -> tuple[bytes, list[Record]]:
    """Return concatenated batches, one per list, and their records with offsets."""
    run, records = b"", []
    for some in lists:
        run += build_batch(some, base_offset=len(records), codec=codec)
        records += numbered(some, len(records))
    return run, records


@given(lists=st.lists(record_lists, min_size=1, max_size=4), codec=st.sampled_from(list(Codec)))
@settings(max_examples=50)
def test_columns_contain_the_records_of_all_batches(scan, lists, codec):
    """The columns contain every field of every record, and Arrow's validation finds no error in the buffers."""
    run, records = run_of(*lists, codec=codec)

    rows = record_batch_from(run, "flights", 3, include_headers=True)

    rows.validate(full=True)
    assert records == records_of(rows)
    assert {("flights", 3, 0)} == set(
        zip(*(rows.column(name).to_pylist() for name in ("topic", "partition", "timestampType")), strict=True)
    )


@given(lists=st.lists(record_lists, min_size=1, max_size=3), start=st.integers(0, 50), size=st.integers(0, 50))
@settings(max_examples=50)
def test_records_outside_the_offset_range_are_skipped(scan, lists, start, size):
    """Records of the first and last batches that lie outside the requested range do not become rows."""
    run, records = run_of(*lists)

    rows = record_batch_from(run, "t", 0, start_offset=start, end_offset=start + size, columns=["offset", "value"])

    wanted = [record for record in records if start <= record.offset < start + size]
    assert [(record.offset, record.value) for record in wanted] == list(
        zip(rows.column("offset").to_pylist(), rows.column("value").to_pylist(), strict=True)
    )


@given(records=record_lists, names=st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, unique=True))
@settings(max_examples=50)
def test_only_the_requested_columns_are_returned(scan, records, names):
    """The columns are in the requested order and have the same contents as without a selection."""
    run, _ = run_of(records)

    some = record_batch_from(run, "t", 1, columns=names)

    everything = record_batch_from(run, "t", 1, include_headers=True)
    assert some == everything.select(names)


def test_the_schema_is_that_of_sparks_kafka_source():
    """The schema has exactly the types that Spark requires: no large or view types, and microseconds in UTC."""
    text = [f"{field.name}: {field.type}" for field in schema(include_headers=True)]

    assert text == [
        "key: binary",
        "value: binary",
        "topic: string",
        "partition: int32",
        "offset: int64",
        "timestamp: timestamp[us, tz=UTC]",
        "timestampType: int32",
        "headers: list<element: struct<key: string, value: binary>>",
    ]
    assert schema().names == ALL_COLUMNS[:-1]
    with pytest.raises(ValueError, match="'colour' is unknown"):
        schema(["colour"])


def test_log_append_time_replaces_the_records_timestamps(scan):
    """With LogAppendTime, all rows of a batch have timestampType 1 and the timestamp of the batch."""
    run = build_batch([Record(None, b"a", (), 5), Record(None, b"b", (), 6)], log_append_time=1_700_000_000_123)

    rows = record_batch_from(run, "t", 0, columns=["timestamp", "timestampType"])

    when = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert rows.to_pylist() == [{"timestamp": when, "timestampType": 1}] * 2


def test_timestamps_too_large_for_microseconds_are_clamped(scan):
    """A timestamp in the year 292,277 is clamped; it does not make the job fail."""
    run = build_batch([Record(None, b"", (), 1 << 62)])

    rows = record_batch_from(run, "t", 0, columns=["timestamp"])

    assert rows.column(0).cast(pa.int64()).to_pylist() == [((1 << 63) - 1) // 1000 * 1000]


def test_missing_headers_are_null_and_invalid_header_names_are_repaired(scan):
    """
    Missing headers are null, as in Spark's Kafka source; invalid UTF-8 in a name is replaced, as in Java's clients.
    """
    named = bytearray()
    append_record(named, 0, 0, None, None, [("ab", b"x")])
    damaged = bytes(named).replace(b"ab", b"\xffb")
    batch = build_batch([Record(None, None, (("ab", b"x"),)), Record(None, None)])
    run = bytes(batch).replace(bytes(named), damaged)

    rows = record_batch_from(run, "t", 0, columns=["headers"], check_crc=False)

    assert rows.column(0).to_pylist() == [[{"key": "\ufffdb", "value": b"x"}], None]


def test_control_batches_and_aborted_transactions_are_skipped(scan):
    """A producer's transactional batches from the first aborted offset to its abort marker are skipped (KIP-98)."""

    def sent(value: bytes, offset: int, producer_id: int) -> bytearray:
        return build_batch(
            [Record(None, value)],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=producer_id >= 0,
        )

    def ended(marker: EndMarker, offset: int, producer_id: int) -> bytearray:
        return build_end_marker(
            marker, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=offset
        )

    run = b"".join(
        [
            sent(b"before", 0, 7),
            ended(EndMarker.COMMIT, 1, 7),
            sent(b"void", 2, 7),
            sent(b"another's", 3, 8),
            sent(b"plain", 4, -1),
            ended(EndMarker.COMMIT, 5, 8),
            ended(EndMarker.ABORT, 6, 7),
            sent(b"after", 7, 7),
        ]
    )

    committed = record_batch_from(run, "t", 0, columns=["value"], aborted=[AbortedTransaction(7, 2)])
    uncommitted = record_batch_from(run, "t", 0, columns=["value"])

    assert committed.column(0).to_pylist() == [b"before", b"another's", b"plain", b"after"]
    assert uncommitted.num_rows == 5


def test_many_parts_become_record_batches_of_bounded_size(scan):
    """A batch is never split across two RecordBatches, and no empty RecordBatch is yielded."""
    run, records = run_of(*[[Record(None, bytes(100))] * 5] * 8)

    groups = list(record_batches_from([run[:-1], b"", run], "t", 0, columns=["offset"], group_bytes_max=1_200))

    assert [group.num_rows for group in groups] == [10] * 7 + [5]
    assert list(record_batches_from(run, "t", 0, start_offset=len(records))) == []
    assert record_batch_from(b"", "t", 0).num_rows == 0


def test_a_batch_that_does_not_match_its_crc_is_refused_if_the_crc_is_checked(scan):
    """A batch that does not match its CRC is refused by default; the check can be turned off."""
    run = build_batch([Record(None, b"value")])
    run[-3] ^= 1

    with pytest.raises(MalformedBatch, match="CRC"):
        record_batch_from(run, "t", 0)

    assert record_batch_from(run, "t", 0, check_crc=False).num_rows == 1


@pytest.mark.parametrize("count", [-1, 2, 3, 1 << 30])
def test_a_wrong_record_count_is_refused_before_anything_is_allocated(scan, count):
    """A record count that is impossible for the size of the records is refused before memory is allocated."""
    run = build_batch([Record(None, b"value")])
    struct.pack_into(">i", run, 57, count)

    with pytest.raises(ValueError, match="record"):
        record_batch_from(run, "t", 0, check_crc=False)


def test_old_formats_and_decompression_bombs_are_refused(scan):
    """Old formats and decompression bombs raise different errors, both of them subclasses of ValueError."""
    old = build_batch([Record(None, b"value")])
    old[16] = 1
    bomb = build_batch([Record(None, bytes(1 << 20))], codec=Codec.GZIP)

    with pytest.raises(MalformedBatch, match="magic 1"):
        record_batch_from(old, "t", 0)
    with pytest.raises(CompressionError, match="more than 65536"):
        record_batch_from(bomb, "t", 0, size_max=1 << 16)


# Conversion of columns to batches.


@given(records=record_lists, codec=st.sampled_from(list(Codec)), skipped=st.integers(0, 5))
@settings(max_examples=50)
def test_columns_are_converted_back_to_their_batches(scan, records, codec, skipped):
    """Columns are converted back to batches of the same records, even if they are slices, whose Arrow offsets do not
    start at 0.
    """
    run, _ = run_of([Record(b"skipped", None, (("a", b"b"),))] * skipped + records)
    rows = record_batch_from(run, "t", 0, include_headers=True).slice(skipped)

    batches = batches_from(rows, timestamp=0, codec=codec, producer_id=3, producer_epoch=1, base_sequence=9)

    assert len(batches) == 1
    assert checked_header(batches[0]) == read_header(batches[0])
    assert numbered(records) == read_records(batches[0])
    assert read_header(batches[0])[9:12] == (3, 1, 9)
    if codec == Codec.NONE:
        assert build_batch(records)[HEADER_BYTES:] == batches[0][HEADER_BYTES:]


def test_batches_have_bounded_size_and_consecutive_sequences(scan):
    """Batches have a bounded size and consecutive sequences; a record larger than the bound gets its own batch."""
    values = [bytes(size) for size in (10, 10, 400, 10, 10, 10, 60)]
    rows = pa.table({"value": pa.chunked_array([values[:4], values[4:]], pa.binary())})

    batches = batches_from(
        rows,
        timestamp=77,
        batch_bytes_max=HEADER_BYTES + 50,
        producer_id=1,
        producer_epoch=0,
        base_sequence=(1 << 31) - 3,
        is_transactional=True,
    )

    headers = [read_header(batch) for batch in batches]
    assert [header.record_count for header in headers] == [2, 1, 1, 2, 1]
    assert [header.base_offset for header in headers] == [0, 2, 3, 4, 6]
    assert [header.base_sequence for header in headers][:3] == [(1 << 31) - 3, (1 << 31) - 1, 0]
    assert all(header.is_transactional for header in headers)
    assert values == [record.value for batch in batches for record in read_records(batch)]
    assert {77} == {record.timestamp for batch in batches for record in read_records(batch)}


def test_batches_have_a_bounded_number_of_records(scan):
    """`batch_records_max` limits the records of a batch."""
    rows = pa.table({"value": pa.array([b"a"] * 5)})

    batches = batches_from(rows, timestamp=0, batch_records_max=2)

    assert [read_header(batch).record_count for batch in batches] == [2, 2, 1]


def test_text_columns_null_timestamps_and_null_headers_are_accepted(scan):
    """Key and value may be text or bytes, as in Spark's sink; a row without a timestamp gets the caller's timestamp."""
    when = datetime(2024, 1, 1, tzinfo=UTC)
    rows = pa.table(
        {
            "key": pa.array(["ключ", None]),
            "value": pa.array(["значение", None], pa.large_string()),
            "timestamp": pa.array([when, None], pa.timestamp("us", tz="UTC")),
            "headers": pa.array([None, [{"key": "n", "value": None}]], schema(["headers"]).field(0).type),
        }
    )

    (batch,) = batches_from(rows, timestamp=99)

    assert read_records(batch) == [
        Record("ключ".encode(), "значение".encode(), (), int(when.timestamp() * 1000), 0),
        Record(None, None, (("n", None),), 99, 1),
    ]


def test_no_rows_give_no_batches_and_a_value_column_is_required(scan):
    """A table without rows (an empty micro-batch) yields no batches; a table without a column `value` is refused."""
    empty = pa.table({"value": pa.array([], pa.binary())})

    assert batches_from(empty, timestamp=0) == []
    with pytest.raises(ValueError, match="no column 'value' among colour"):
        batches_from(pa.table({"colour": [b"x"]}), timestamp=0)


def test_invalid_arrow_offsets_are_refused(scan):
    """Arrow buffers are checked before use, and invalid offsets in them are refused."""
    ends = pa.py_buffer(struct.pack("iii", 0, 1 << 20, 5))
    rows = pa.RecordBatch.from_arrays(
        [pa.Array.from_buffers(pa.binary(), 2, [None, ends, pa.py_buffer(b"short")])], names=["value"]
    )

    with pytest.raises(ValueError, match="row 0 has"):
        batches_from(rows, timestamp=0)


def test_spark_agrees_with_the_schema():
    """PySpark converts the schema of its own Kafka source to the same Arrow schema."""
    types = pytest.importorskip("pyspark.sql.pandas.types")
    ddl = pytest.importorskip("pyspark.sql.types")
    spark_schema = ddl.StructType(
        [
            ddl.StructField("key", ddl.BinaryType()),
            ddl.StructField("value", ddl.BinaryType()),
            ddl.StructField("topic", ddl.StringType()),
            ddl.StructField("partition", ddl.IntegerType()),
            ddl.StructField("offset", ddl.LongType()),
            ddl.StructField("timestamp", ddl.TimestampType()),
            ddl.StructField("timestampType", ddl.IntegerType()),
            ddl.StructField(
                "headers",
                ddl.ArrayType(
                    ddl.StructType(
                        [ddl.StructField("key", ddl.StringType()), ddl.StructField("value", ddl.BinaryType())]
                    )
                ),
            ),
        ]
    )

    theirs = types.to_arrow_schema(spark_schema, timezone="UTC")

    assert theirs == schema(include_headers=True)


def test_rows_are_encoded_in_the_given_order(scan: ModuleType):
    """
    `RowEncoder` encodes the rows in a range of `order`, and returns each batch with the index of its first record in
    `order`.
    """
    values = [b"%d" % number for number in range(6)]
    rows = pa.record_batch(
        {"value": pa.array(values, pa.binary()), "timestamp": pa.array(range(6), pa.timestamp("ms"))}
    )
    encoder = RowEncoder(rows, 0, order=array("i", [5, 3, 1, 0]))

    first, second = encoder.batches(1, 4, batch_records_max=2)

    assert [(2, 1), (1, 3)] == [(encoded.record_count, encoded.place) for encoded in (first, second)]
    decoded = record_batch_from([first.batch, second.batch], "t", 0)
    assert [b"3", b"1", b"0"] == decoded.column("value").to_pylist()
    assert [3_000, 1_000, 0] == decoded.column("timestamp").cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("order", [[0, 2], [-1], [0, -5]])
def test_an_order_with_an_unknown_row_is_refused(scan: ModuleType, order: list[int]):
    rows = pa.record_batch({"value": pa.array([b"a", b"b"], pa.binary())})

    with pytest.raises(ValueError, match="row"):
        list(RowEncoder(rows, 0, order=array("i", order)).batches())
