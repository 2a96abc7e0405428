"""Writing Arrow rows to fake brokers: where rows arrive, which rows are refused, and which producers are reused."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.unit.client.fake_cluster import FakeCluster, Partition, Topic
from tests.unit.client.test_socket_dial import refusing
from tidemill.batches.batch import read_header
from tidemill.batches.records import Record, read_records
from tidemill.client import topic_kinds
from tidemill.client.failures import RetriesExhausted, UnknownTopic
from tidemill.columnar import producer_pool, sink_options, sink_topics, topic_writer
from tidemill.columnar.row_faults import RowRefused
from tidemill.columnar.sink_options import SinkOptions
from tidemill.columnar.topic_writer import TopicWriter
from tidemill.model.partition import TopicPartition


@pytest.fixture(autouse=True)
def _no_producers_are_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sink_topics, "_NEW_TOPIC_MS", 20)
    monkeypatch.setattr(topic_kinds, "NEW_TOPIC_MS", 20)
    yield
    producer_pool.close_all()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.topics["t"].partitions = {number: Partition() for number in range(3)}
        yield running


def options_for(cluster: FakeCluster, topic: str | None = "t", **keys: str) -> SinkOptions:
    servers = ",".join(f"{one.host}:{one.port}" for one in cluster.settings().bootstrap)
    named = {f"kafka.{key.replace('_', '.')}": value for key, value in keys.items()}
    fast = {"kafka.retry.backoff.ms": "1", "kafka.delivery.timeout.ms": "5000"}
    chosen = {} if topic is None else {"topic": topic}
    return sink_options.parse({"kafka.bootstrap.servers": servers, **chosen, **fast, **named})


def records(cluster: FakeCluster, partition: int, topic: str = "t") -> list[Record]:
    stored = cluster.topics[topic].partitions[partition].batches
    return [record for batch in stored for record in read_records(batch)]


def values(cluster: FakeCluster, partition: int, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in records(cluster, partition, topic)]


def rows_of(**columns: object) -> pa.RecordBatch:
    return pa.record_batch(columns)


def write(cluster: FakeCluster, *batches: pa.RecordBatch, topic: str | None = "t", **keys: str) -> object:
    with TopicWriter(options_for(cluster, topic, **keys), batches[0].schema) as writer:
        for rows in batches:
            writer.write(rows)
        return writer.flush()


def test_every_column_arrives(cluster: FakeCluster):
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = rows_of(
        key=pa.array(["a", None, ""]),
        value=pa.array([b"1", b"", None], pa.binary()),
        headers=pa.array([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []], headers),
        partition=pa.array([2, 2, 2], pa.int32()),
        timestamp=pa.array([1_500, None, 2_500_999], pa.timestamp("us", "UTC")),
    )

    write(cluster, rows)

    first, second, third = records(cluster, 2)
    assert (b"a", b"1", (("h", b"x"), ("h", None)), 1) == (first.key, first.value, first.headers, first.timestamp)
    assert (None, b"", ()) == (second.key, second.value, second.headers)
    assert second.timestamp > 1_700_000_000_000  # a row without a timestamp gets the time of the write
    assert (b"", None, (), 2_500) == (third.key, third.value, third.headers, third.timestamp)


def test_rows_go_to_their_partition_or_by_key(cluster: FakeCluster):
    rows = rows_of(key=pa.array(["21", "foobar", "21"]), value=pa.array(["a", "b", "c"]))

    summary = write(cluster, rows)

    # Java's hashes without the sign bit are 1173551340 and 1357001166: partitions 0 and 0 of 3.
    assert [b"a", b"b", b"c"] == values(cluster, 0)
    assert {TopicPartition("t", 0): (0, 3)} == summary.offsets


def test_rows_without_key_share_a_partition_until_it_has_a_batch(cluster: FakeCluster):
    rows = rows_of(value=pa.array([b"x" * 93] * 30, pa.binary()))

    summary = write(cluster, rows, batch_size="1000")

    assert [10, 10, 10] == sorted(len(values(cluster, number)) for number in range(3))
    assert (30, 3) == (summary.records, len(summary.offsets))


def test_keys_can_be_ignored(cluster: FakeCluster):
    rows = rows_of(key=pa.array(["21"] * 30), value=pa.array([b"x" * 93] * 30, pa.binary()))

    write(cluster, rows, batch_size="1000", partitioner_ignore_keys="true")

    assert [10, 10, 10] == sorted(len(values(cluster, number)) for number in range(3))


def test_the_column_topic_names_the_topic_of_each_row_unless_the_option_does(cluster: FakeCluster):
    cluster.topics["u"] = Topic()
    rows = rows_of(
        topic=pa.array(["u", "t", "u"]),
        value=pa.array(["a", "b", "c"]),
        partition=pa.array([0, 1, 0]),
    )

    write(cluster, rows, topic=None)
    assert ([b"a", b"c"], [b"b"]) == (values(cluster, 0, "u"), values(cluster, 1))

    write(cluster, rows)
    assert ([b"a", b"c"], [b"a", b"c"], [b"b", b"b"]) == (
        values(cluster, 0, "u"),
        values(cluster, 0),
        values(cluster, 1),
    )


def test_small_batches_of_rows_are_written_together(cluster: FakeCluster):
    parts = [rows_of(value=pa.array([f"{number}"]), partition=pa.array([1])) for number in range(50)]

    write(cluster, *parts)

    assert [b"%d" % number for number in range(50)] == values(cluster, 1)
    assert 1 == len(cluster.topics["t"].partitions[1].batches)


def test_rows_are_written_in_groups_of_bounded_size(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topic_writer, "_GROUP_BYTES", 1_000)
    rows = rows_of(value=pa.array([f"{number:090}" for number in range(100)]), partition=pa.array([1] * 100))

    write(cluster, rows, rows.slice(90), rows.slice(99))

    expected = [*range(100), *range(90, 100), 99]
    assert [b"%090d" % number for number in expected] == values(cluster, 1)
    assert max(read_header(batch).record_count for batch in cluster.topics["t"].partitions[1].batches) < 30


def test_the_summary_adds_up_over_flushes(cluster: FakeCluster):
    rows = rows_of(value=pa.array(["a"]), partition=pa.array([1]))
    with TopicWriter(options_for(cluster), rows.schema) as writer:
        assert {} == writer.flush().offsets
        writer.write(rows)
        writer.flush()
        writer.write(rows)
        writer.write(rows.slice(1))
        summary = writer.flush()

    assert (2, {TopicPartition("t", 1): (0, 2)}) == (summary.records, summary.offsets)
    assert sum(map(len, cluster.topics["t"].partitions[1].batches)) == summary.bytes


def test_a_producer_serves_later_writes_with_the_same_options(cluster: FakeCluster):
    rows = rows_of(value=pa.array(["a"]), partition=pa.array([1]))
    for _ in range(3):
        write(cluster, rows)

    assert [b"a"] * 3 == values(cluster, 1)
    assert 1 == cluster.count("init_producer_id")

    write(cluster, rows, compression_type="zstd")
    assert 2 == cluster.count("init_producer_id")


def test_a_failed_producer_is_not_used_again(cluster: FakeCluster):
    cluster.message_bytes_max = None  # the client does not know the limit, so only the broker refuses the record
    good = rows_of(value=pa.array(["a"]), partition=pa.array([1]))
    write(cluster, good)
    with pytest.raises(Exception, match="MESSAGE_TOO_LARGE"):
        write(cluster, rows_of(value=pa.array(["x" * 1_100_000]), partition=pa.array([1])))
    write(cluster, good)

    assert [b"a", b"a"] == values(cluster, 1)
    assert 2 == cluster.count("init_producer_id")


def test_a_missing_topic_is_refused_before_any_row(cluster: FakeCluster):
    with pytest.raises(UnknownTopic, match="topic 'missing': it does not exist in the cluster; create it"):
        TopicWriter(options_for(cluster, "missing"), pa.schema({"value": pa.binary()}))


def test_a_topic_that_was_just_created_is_found(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch):
    """A broker may not know a new topic yet, so the writer asks again."""
    monkeypatch.setattr(sink_topics, "_NEW_TOPIC_MS", 10_000)
    partitions = cluster.topics.pop("t")

    def create_at_second_request(broker_id: int, name: str, request: object) -> None:
        if cluster.count("metadata") == 2:
            cluster.topics["t"] = partitions

    cluster.hook = create_at_second_request
    write(cluster, rows_of(value=pa.array(["a"]), partition=pa.array([1])))

    assert [b"a"] == values(cluster, 1)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            {"topic": pa.array(["t", None])},
            "null topic present in the data. Use the topic option for setting a topic, "
            "or fill the column 'topic': row 3",
        ),
        ({"topic": pa.array(["t", "v"])}, "topic 'v', row 3: it does not exist in the cluster; create it"),
        (
            {"topic": pa.array(["t", "t"]), "partition": pa.array([0, -1])},
            "topic 't', partition -1, row 3: the topic has partitions 0 to 2: correct the column 'partition'",
        ),
        (
            {"topic": pa.array(["t", "t"]), "partition": pa.array([0, 3])},
            "topic 't', partition 3, row 3: the topic has partitions 0 to 2",
        ),
        (
            {"topic": pa.array(["t", "t"]), "timestamp": pa.array([1, -5], pa.timestamp("ms"))},
            "topic 't', row 3: timestamp 1969-12-31 23:59:59.995",
        ),
        (
            {
                "topic": pa.array(["t", "t"]),
                "headers": pa.array(
                    [[], [{"key": None, "value": b""}]],
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                ),
            },
            "topic 't', row 3: a header has no key",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_named(cluster: FakeCluster, columns: dict[str, pa.Array], sentence: str):
    """
    The error for a row that cannot be written contains its number, counted from 0 over all rows given to the writer,
    including those that have already been sent.
    """
    rows = rows_of(value=pa.array(["a", "b"]), **columns)
    with TopicWriter(options_for(cluster, None), rows.schema) as writer:
        writer.write(rows.slice(0, 1))
        writer.flush()
        writer.write(rows.slice(0, 1))
        with pytest.raises(RowRefused) as refused:
            writer.write(rows)
            writer.flush()

    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("limit", "keys", "sentence"),
    [
        (500, {}, "more than max.message.bytes=500 of the topic: raise it, set kafka.compression.type, or split"),
        (5_000, {"max_request_size": "400"}, "more than kafka.max.request.size=400: raise it"),
    ],
)
def test_a_record_over_the_limit_is_named_before_it_is_sent(
    cluster: FakeCluster, limit: int, keys: dict[str, str], sentence: str
):
    cluster.message_bytes_max = limit
    rows = rows_of(value=pa.array(["a" * 20, "b" * 600, "c" * 20]), partition=pa.array([2, 1, 2]))

    with pytest.raises(RowRefused) as refused:
        write(cluster, rows, **keys)

    assert str(refused.value).startswith("topic 't', partition 1, row 1: its batch has ")
    assert sentence in str(refused.value)
    write(cluster, rows, compression_type="zstd", **keys)
    assert [b"b" * 600] == values(cluster, 1)


def test_due_times_and_timer_ids_become_headers_on_a_timer_topic(cluster: FakeCluster):
    cluster.topics["t"].kind = "timer"
    rows = rows_of(
        value=pa.array(["a", "b", "c"]),
        partition=pa.array([1, 1, 1]),
        deliver_at=pa.array([1_800_000_000_000, None, 1_800_000_000_001], pa.int64()),
        timer_id=pa.array(["x", None, None]),
    )

    write(cluster, rows)

    due, timer = "tidemill-deliver-at", "tidemill-timer-id"
    expected = [((due, b"1800000000000"), (timer, b"x")), (), ((due, b"1800000000001"),)]
    assert expected == [it.headers for it in records(cluster, 1)]
    assert [b"a", b"b", b"c"] == values(cluster, 1)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("log", "it is of kind log, and only timer topics delay records; create one with `tidemill topics create NAME"),
        (None, "its broker does not report tidemill.kind, and only timer topics of Tidemill delay records; create one"),
    ],
)
@pytest.mark.parametrize("column", ["deliver_at", "timer_id"])
def test_a_topic_of_another_kind_takes_no_due_times(cluster: FakeCluster, column: str, kind: str | None, sentence: str):
    cluster.topics["t"].kind = kind
    fields = {"value": pa.binary(), "deliver_at": pa.int64(), "timer_id": pa.string()}
    schema = pa.schema({name: fields[name] for name in ("value", column)})

    with pytest.raises(ValueError) as refused:
        TopicWriter(options_for(cluster), schema)

    assert str(refused.value).startswith("topic 't' does not take the columns deliver_at and timer_id: ")
    assert sentence in str(refused.value)
    assert 0 == cluster.count("produce")
    TopicWriter(options_for(cluster), pa.schema({"value": pa.binary(), column: pa.null()})).close()


def test_where_rows_name_their_topics_only_those_that_wait_need_a_timer_topic(cluster: FakeCluster):
    cluster.topics["u"] = Topic(kind="timer")
    rows = rows_of(
        topic=pa.array(["t", "u", "u", "t"]),
        value=pa.array(["a", "b", "c", "d"]),
        partition=pa.array([0, 0, 0, 0]),
        deliver_at=pa.array([None, 1_800_000_000_000, None, None], pa.int64()),
        timer_id=pa.array([None, None, None, "x"]),
    )

    with pytest.raises(RowRefused, match=r"topic 't', row 3: the topic does not take the columns .* it is of kind log"):
        write(cluster, rows, topic=None)
    assert 0 == cluster.count("produce")

    write(cluster, rows.slice(0, 3), topic=None)
    assert ([b"a"], [b"b", b"c"]) == (values(cluster, 0), values(cluster, 0, "u"))


def test_the_kind_of_a_topic_is_looked_up_once_and_only_if_rows_are_to_wait(cluster: FakeCluster):
    cluster.topics["t"].kind = "timer"
    plain = rows_of(value=pa.array(["a"]))
    write(cluster, plain)
    before = cluster.count("describe_configs")
    due = rows_of(value=pa.array(["a"]), topic=pa.array(["t"]), deliver_at=pa.array([10**12], pa.int64()))
    with TopicWriter(options_for(cluster, None), due.schema) as writer:
        for _ in range(3):
            writer.write(due)
            writer.flush()

    assert (1, 3) == (before, cluster.count("describe_configs"))


def test_batches_respect_the_limit_of_the_topic(cluster: FakeCluster):
    cluster.message_bytes_max = 500
    rows = rows_of(value=pa.array(["x" * 100] * 20), partition=pa.array([1] * 20))

    write(cluster, rows)

    assert 20 == len(values(cluster, 1))
    assert max(map(len, cluster.topics["t"].partitions[1].batches)) <= 500
    assert 1 == cluster.count("describe_configs")


def test_a_partition_that_was_added_meanwhile_is_found(cluster: FakeCluster):
    rows = rows_of(value=pa.array(["a"]), partition=pa.array([3]))
    with TopicWriter(options_for(cluster), rows.schema) as writer:
        cluster.topics["t"].partitions[3] = Partition()
        writer.write(rows)
        writer.flush()

    assert [b"a"] == values(cluster, 3)


@pytest.mark.parametrize("topic", ["t", None])
def test_a_task_waits_for_a_cluster_that_the_driver_has_reached(topic: str | None):
    """A wrong address fails early on the driver; a task waits for a broker up to delivery.timeout.ms."""
    keys = {"socket.connection.setup.timeout.ms": "50", "delivery.timeout.ms": "400", "retry.backoff.ms": "5"}
    schema = pa.schema([("value", pa.string()), ("topic", pa.string())])
    with refusing() as stopped:
        given = {f"kafka.{key}": value for key, value in keys.items()} | ({} if topic is None else {"topic": topic})
        options = sink_options.parse({"kafka.bootstrap.servers": f"{stopped.host}:{stopped.port}", **given})

        with pytest.raises(RetriesExhausted, match=r"responded within 50 ms.*check the address"):
            TopicWriter(options, schema)
        with pytest.raises(RetriesExhausted, match="gave up after 400 ms: cannot connect to broker"):
            TopicWriter(options.for_tasks(), schema)
