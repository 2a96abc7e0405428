"""`tidemill.arrow.write` with a real broker: tables of several libraries, what arrives, and what is refused."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tidemill import arrow
from tidemill.client.failures import UnknownTopic
from tidemill.model.partition import TopicPartition

WHEN = datetime(2013, 1, 1, 10, 0, 0, 123_000, tzinfo=UTC)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def both(bootstrap):
    """Write a table and read the topic back; return the summary and the rows in the order of their offsets."""

    def write_and_read(topic, table, **options):
        summary = arrow.write(topic, table, bootstrap_servers=bootstrap, **options)
        rows = arrow.read(topic, bootstrap_servers=bootstrap, includeHeaders=True).read_all()
        return summary, rows.sort_by([("partition", "ascending"), ("offset", "ascending")])

    return write_and_read


def pairs(rows):
    return list(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))


def test_what_was_read_is_equal_to_what_was_written(both, make_topic):
    """
    Every column that is written is read back with the same content.
    """
    topic = make_topic(partitions=2)
    written = pa.table(
        {
            "key": pa.array([b"k", None, b"", b"z"], pa.binary()),
            "value": pa.array([b"v", None, b"", b"w" * 200_000], pa.binary()),
            "headers": pa.array(
                [[{"key": "a", "value": b"1"}, {"key": "é", "value": None}], None, [{"key": "", "value": b""}], None],
                HEADERS,
            ),
            "partition": pa.array([0, 0, 1, 1], pa.int32()),
            "timestamp": pa.array([WHEN, WHEN.replace(year=2014), WHEN, WHEN], pa.timestamp("us", tz="UTC")),
        }
    )

    summary, rows = both(topic, written)

    assert written == rows.select(written.column_names)
    assert 4 == summary.records
    assert {TopicPartition(topic, 0): (0, 2), TopicPartition(topic, 1): (0, 2)} == summary.offsets


def test_a_topic_is_copied_as_a_stream(both, bootstrap, make_topic, produce):
    """
    A reader of one topic is written to another one, with the partitions and timestamps of the records.
    """
    source, target = make_topic(partitions=2), make_topic(partitions=2)
    produce(
        source, [{"key": b"%d" % n, "value": b"v%d" % n, "partition": n % 2, "timestamp": n + 1} for n in range(50)]
    )
    original = arrow.read(source, bootstrap_servers=bootstrap).read_all()

    summary, copied = both(target, arrow.read(source, bootstrap_servers=bootstrap))

    same = ["key", "value", "partition", "offset", "timestamp"]
    original = original.sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert original.select(same) == copied.select(same)
    assert 50 == summary.records


def duckdb_relation():
    duckdb = pytest.importorskip("duckdb")
    return duckdb.sql("SELECT 'k' || i AS key, ('v' || i)::BLOB AS value, 0 AS partition FROM range(3) AS r(i)")


def polars_frame():
    polars = pytest.importorskip("polars")
    headers = [None, [{"key": "a", "value": b"1"}], []]
    return polars.DataFrame({"key": ["k0", "k1", "k2"], "value": [b"v0", b"v1", b"v2"], "headers": headers})


def polars_categories():
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"key": ["k0", "k1", "k2"], "value": ["v0", "v1", "v2"]}).cast({"key": polars.Categorical})


def pandas_objects():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"key": ["k0", "k1", "k2"], "value": [b"v0", b"v1", b"v2"]}, index=[7, 8, 9])


def pandas_arrow():
    return pandas_objects().convert_dtypes(dtype_backend="pyarrow")


def record_batch():
    return pa.record_batch({"key": ["k0", "k1", "k2"], "value": ["v0", "v1", "v2"]})


def large_strings():
    table = pa.table({"key": pa.array(["k0", "k1", "k2"], pa.large_string()), "value": ["v0", "v1", "v2"]})
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


@pytest.mark.parametrize(
    "make",
    [duckdb_relation, polars_frame, polars_categories, pandas_objects, pandas_arrow, record_batch, large_strings],
    ids=lambda make: make.__name__,
)
def test_tables_of_other_libraries_are_written(both, make_topic, make):
    """
    A table of any library that exports Arrow data is written, whichever types of text and binary columns it has.
    """
    _, rows = both(make_topic(), make())

    assert [(b"k0", b"v0"), (b"k1", b"v1"), (b"k2", b"v2")] == pairs(rows)


@pytest.mark.parametrize("library", ["polars", "duckdb", "pandas"])
def test_libraries_take_the_reader(library, bootstrap, make_topic):
    """
    Polars, DuckDB and pandas accept the reader and read all its rows and columns.
    """
    module = pytest.importorskip(library)
    topic = make_topic(partitions=3)
    table = pa.table({"value": [str(n) for n in range(1_000)], "partition": [n % 3 for n in range(1_000)]})
    arrow.write(topic, table, bootstrap_servers=bootstrap)
    records = arrow.read(topic, bootstrap_servers=bootstrap, includeHeaders=True)

    if library == "duckdb":
        found = module.sql("SELECT decode(value)::INT AS n, partition FROM records").fetchall()
    elif library == "polars":
        frame = module.DataFrame(records)
        found = list(zip(map(int, frame["value"]), frame["partition"], strict=True))
    else:
        frame = records.read_pandas()
        found = list(zip(frame["value"].astype(int), frame["partition"], strict=True))

    assert [(n, n % 3) for n in range(1_000)] == sorted(found)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_written(both, make_topic, codec):
    """
    The option kafka.compression.type sets the codec of the batches that are sent.
    """
    summary, rows = both(make_topic(), pa.table({"value": ["same " * 20] * 1_000}), **{"kafka.compression.type": codec})

    assert (1_000, {b"same " * 20}) == (rows.num_rows, set(rows["value"].to_pylist()))
    assert (summary.bytes < 50_000) is (codec != "none")


def test_the_column_topic_chooses_the_topic(bootstrap, make_topic):
    """
    If no topic is passed to `write`, each row goes to the topic that its column `topic` names.
    """
    one, two = make_topic(), make_topic()

    table = pa.table({"topic": [one, two, one], "value": ["a", "b", "c"]})
    summary = arrow.write(None, table, bootstrap_servers=bootstrap)

    assert {TopicPartition(one, 0): (0, 2), TopicPartition(two, 0): (0, 1)} == summary.offsets


def test_nothing_is_written_to_a_missing_topic(bootstrap):
    """
    A topic that does not exist is refused before any row is taken from the stream.
    """
    taken = []
    rows = pa.record_batch({"value": ["v"]})
    stream = pa.RecordBatchReader.from_batches(rows.schema, (taken.append(n) or rows for n in range(3)))

    with pytest.raises(UnknownTopic, match=r"^topic 'no-such-topic': it does not exist in the cluster"):
        arrow.write("no-such-topic", stream, bootstrap_servers=bootstrap)

    assert [] == taken


def test_an_empty_table_is_written(both, make_topic):
    """
    A table without rows writes nothing, and the summary has no records and no offsets.
    """
    summary, rows = both(make_topic(), pa.table({"value": pa.array([], pa.string())}))

    assert (0, {}, 0) == (summary.records, summary.offsets, rows.num_rows)


def test_an_error_of_the_stream_reaches_the_caller(bootstrap, make_topic):
    """
    If the stream of rows fails, the caller gets the error of the stream.
    """

    def batches():
        yield pa.record_batch({"value": ["v"]})
        raise LookupError("the stream broke")

    stream = pa.RecordBatchReader.from_batches(pa.schema({"value": pa.string()}), batches())

    with pytest.raises(LookupError, match=r"^'?the stream broke"):
        arrow.write(make_topic(), stream, bootstrap_servers=bootstrap)
