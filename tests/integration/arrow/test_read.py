"""`tidemill.arrow.read` with a real broker: columns, options, errors, memory and closing early."""

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tests.integration.spark.conftest import SOURCE
from tidemill import arrow
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import UnknownTopic
from tidemill.columnar import parallel_reader

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def read(bootstrap):
    def read_all(topic, **options):
        return arrow.read(topic, bootstrap_servers=bootstrap, **options).read_all()

    return read_all


@pytest.fixture
def ten(make_topic, produce):
    """Create a topic whose two partitions have 10 and 5 records, with the timestamps 1000, 2000 and so on."""
    topic = make_topic(partitions=2)
    produce(
        topic,
        [
            {"value": b"%d" % n, "key": b"k%d" % n, "partition": p, "timestamp": 1_000 * (n + 1)}
            for p, count in ((0, 10), (1, 5))
            for n in range(count)
        ],
    )
    return topic


def offsets(table):
    """Return the offsets of each partition in the order in which they were read."""
    by_partition = {}
    for partition, offset in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True):
        by_partition.setdefault(partition, []).append(offset)
    return by_partition


def test_every_column_has_the_produced_value(read, make_topic, produce):
    """
    Every column has the produced value, including null and empty keys and values, and null and repeated headers.
    """
    topic = make_topic()
    first = {
        "key": b"k",
        "value": b"v",
        "timestamp": 1_357_034_400_123,
        "headers": [("a", b"1"), ("a", None), ("é", b"")],
    }
    produce(
        topic,
        [first, {"key": None, "value": None, "timestamp": 2}, {"key": b"", "value": b"", "timestamp": 1}],
    )

    table = read(topic, includeHeaders=True)

    assert {
        "key": [b"k", None, b""],
        "value": [b"v", None, b""],
        "topic": [topic] * 3,
        "partition": [0, 0, 0],
        "offset": [0, 1, 2],
        "timestamp": [
            datetime(2013, 1, 1, 10, 0, 0, 123_000, tzinfo=UTC),
            datetime(1970, 1, 1, 0, 0, 0, 2_000, tzinfo=UTC),
            datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC),
        ],
        "timestampType": [0, 0, 0],
        "headers": [
            [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "é", "value": b""}],
            None,
            None,
        ],
    } == table.to_pydict()
    assert "headers" not in read(topic).column_names


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(read, make_topic, produce, codec):
    """
    Batches of every codec are read; they are large enough for the producer to compress them.
    """
    topic = make_topic()
    produce(topic, [{"value": b"%08d" % n * 20} for n in range(500)], **{"compression.type": codec, "linger.ms": 50})

    assert [b"%08d" % n * 20 for n in range(500)] == read(topic)["value"].to_pylist()


def test_columns_are_those_that_were_named(read, ten):
    """
    Only the named columns are decoded, in the given order; reading the column `headers` requires no other option.
    """
    table = read(ten, columns=["offset", "headers", "partition"])

    assert ["offset", "headers", "partition"] == table.column_names
    assert {0: list(range(10)), 1: list(range(5))} == offsets(table)


def test_an_empty_topic_has_the_columns_and_no_rows(read, make_topic):
    """
    A topic without records gives a table with all columns and no rows.
    """
    table = read(make_topic(partitions=3))

    assert (0, 7) == (table.num_rows, table.num_columns)


@pytest.mark.parametrize(
    ("options", "read_offsets"),
    [
        (
            {"startingOffsets": {"TOPIC": {"0": 8, "1": -2}}, "endingOffsets": {"TOPIC": {"0": -1, "1": 1}}},
            [[8, 9], [0]],
        ),
        ({"STARTINGOFFSETS": '{"TOPIC":{"0":9,"1":4}}'}, [[9], [4]]),
        ({"startingTimestamp": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)}, [list(range(4, 10)), [4]]),
        ({"endingTimestamp": 2_000}, [[0], [0]]),
    ],
    ids=["offsets", "text", "datetime", "number"],
)  # fmt: skip
def test_options_bound_the_read(read, ten, options, read_offsets):
    """
    The options of Spark's source limit the read.  They may be given as text, as in Spark, or as Python values.
    """

    def named(value):
        if isinstance(value, dict):
            return {ten: value["TOPIC"]}
        return value.replace("TOPIC", ten) if isinstance(value, str) else value

    table = read(ten, **{name: named(value) for name, value in options.items()})

    assert dict(enumerate(read_offsets)) == offsets(table)


def test_partitions_and_patterns_choose_what_is_read(read, ten, make_topic):
    """
    Without a topic, the options `assign` and `subscribePattern` select what is read; several topics are separated by
    commas.
    """
    other = make_topic()

    assert {1: list(range(5))} == offsets(read(None, assign={ten: [1]}))
    assert 15 == read(None, subscribePattern=f"{ten}|{other}").num_rows
    assert 15 == read(f"{ten},{other}").num_rows


def test_the_end_is_the_end_at_the_call(bootstrap, ten, produce):
    """
    A reader ends at the end offsets at the time of the call of `read`; records that arrive later are not read.
    """
    reader = arrow.read(ten, bootstrap_servers=bootstrap)
    produce(ten, [{"value": b"late", "partition": 0}])

    assert {0: list(range(10)), 1: list(range(5))} == offsets(reader.read_all())


def test_a_missing_topic_is_refused_at_the_call(bootstrap):
    """
    A topic that does not exist is refused by `read`, not by the reader.
    """
    with pytest.raises(UnknownTopic, match=r"^topic 'no-such-topic': it does not exist in the cluster"):
        arrow.read("no-such-topic", bootstrap_servers=bootstrap)


def test_lost_records_are_an_error_with_one_sentence(read, ten, caplog):
    """
    Offsets that do not exist raise DataLossError without the traceback of a thread; failOnDataLoss=False skips them.
    """
    options = {"startingOffsets": {ten: {"0": 20, "1": 0}}, "endingOffsets": {ten: {"0": 30, "1": 5}}}

    with pytest.raises(arrow.DataLossError, match=rf"^offset 20 of {ten}-0 is out of range") as raised:
        read(ten, **options)
    rest = read(ten, failOnDataLoss=False, **options)

    assert raised.value.__cause__ is raised.value.__context__ is None
    assert {1: list(range(5))} == offsets(rest)


def readers():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tidemill-read")]


def test_dropping_the_reader_closes_its_connections(bootstrap, make_topic, monkeypatch):
    """
    If a reader is dropped early, its thread ends and its connection is closed; a reader that has not started has
    neither.
    """
    opened = []

    class Watched(ClusterMetadata):
        def connection_to(self, broker_id):
            opened.append(super().connection_to(broker_id))
            return opened[-1]

    monkeypatch.setattr(parallel_reader, "ClusterMetadata", Watched)
    topic = make_topic()
    # More data than the reader fetches ahead of the caller, so that the thread cannot be at the end of the topic.
    rows = pa.record_batch({"value": [bytes(100_000)] * 1_000})
    arrow.write(topic, rows, bootstrap_servers=bootstrap, **{"kafka.compression.type": "zstd"})

    reader = arrow.read(topic, bootstrap_servers=bootstrap)
    before = readers(), list(opened)
    reader.read_next_batch()
    during = readers(), [connection.is_open for connection in opened]
    del reader

    assert ([], []) == before
    assert (["tidemill-read-0"], [True]) == during
    assert ([], [False]) == (readers(), [connection.is_open for connection in opened])


MEMORY = """
import sys
from pathlib import Path
from tidemill import arrow

def print_peak():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(line.split()[1]) >> 10)

def read():
    return arrow.read(sys.argv[2], bootstrap_servers=sys.argv[1], columns=["value"])

reader = read()
print_peak()
print(sum(rows.nbytes for rows in reader) >> 20)
print_peak()
table = read().read_all()
print_peak()
"""


def test_memory_does_not_grow_with_the_topic(bootstrap, make_topic):
    """
    Reading 500 MB, which compression has reduced to a hundredth, takes less than 300 MB of memory.  Keeping all rows
    takes more.
    """
    topic = make_topic(partitions=4)
    rows = pa.record_batch({"value": [b"%06d" % n * 1_600 for n in range(1_000)]})  # 10 MB
    with_repeats = pa.RecordBatchReader.from_batches(rows.schema, (rows for _ in range(50)))
    arrow.write(topic, with_repeats, bootstrap_servers=bootstrap, **{"kafka.compression.type": "zstd"})

    finished = subprocess.run(
        [sys.executable, "-c", MEMORY, bootstrap, topic],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path[1:]])},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert 0 == finished.returncode, finished.stderr
    first, megabytes, streamed, kept = map(int, finished.stdout.split())
    assert 450 < megabytes
    assert streamed - first < 300
    assert kept - first > 450
