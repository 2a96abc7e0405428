"""The pipeline `snapshot` with a real broker, compared with the dictionary that a consumer builds."""

import json
from itertools import islice

import pytest

from examples import flights
from tests.fault.extent import soak_only
from tidemill.spark import pipelines
from tidemill.spark.pipelines.frame.run import make_job, run
from tidemill.spark.pipelines.snapshot import manifest
from tidemill.spark.pipelines.snapshot.manifest import SnapshotRefused

confluent_kafka = pytest.importorskip("confluent_kafka")

FLIGHTS = 4_000


@pytest.fixture(scope="module")
def by_plane():
    """Return the first flights of 2013 by tail number; every 31st is a tombstone, and some have no key."""
    records = []
    for number, flight in enumerate(islice(flights.read(flights.FlightTable()), FLIGHTS)):
        plane = json.loads(flight.value)["tailnum"]
        records.append(
            {
                "key": None if plane is None else plane.encode(),
                "value": None if number % 31 == 0 else flight.value,
                "timestamp": flight.timestamp_ms,
                "headers": [("number", str(number).encode())],
            }
        )
    return records


@pytest.fixture
def snapshot(spark, bootstrap, tmp_path):
    def start(topic, **options):
        options = {"to": str(tmp_path / "snapshot"), "state": tmp_path / "state", **options}
        return pipelines.snapshot(spark, topic=topic, bootstrap_servers=bootstrap, **options)

    return start


@pytest.fixture
def dictionary(bootstrap):
    """`dictionary(topic)` returns the newest record of each key: value, partition, offset, timestamp and headers."""

    def read(topic):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
        )
        numbers = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in numbers])
        newest, at_end = {}, set()
        while len(at_end) < len(numbers):
            message = consumer.poll(30)
            assert message is not None, "no message within 30 s"
            if message.error() is not None:
                at_end.add(message.partition())
            elif message.value() is None:
                newest.pop(message.key(), None)
            elif message.key() is not None:
                newest[message.key()] = message
        consumer.close()
        return {key: (m.value(), m.partition(), m.offset(), m.timestamp()[1], m.headers()) for key, m in newest.items()}

    return read


@pytest.fixture
def kept(spark, tmp_path):
    def read(path=tmp_path / "snapshot"):
        rows = pipelines.snapshot.read(spark, path).collect()
        found = {
            bytes(row["key"]): (
                bytes(row["value"]),
                row["partition"],
                row["offset"],
                round(row["timestamp"].timestamp() * 1_000),
                [(one["key"], bytes(one["value"])) for one in row["headers"]] if "headers" in row else None,
            )
            for row in rows
        }
        assert len(rows) == len(found)
        return found

    return read


def versions(path):
    return sorted(one.name for one in path.glob("v*"))


def without_headers(newest):
    return {key: (*row[:4], None) for key, row in newest.items()}


def test_a_snapshot_is_a_consumers_dictionary_run_after_run(
    snapshot, kept, dictionary, make_topic, produce, by_plane, tmp_path
):
    """Every run reads only new records, and the result equals the dictionary of a consumer that has read everything."""
    topic = make_topic(partitions=3)
    produce(topic, by_plane[:2_000])
    first = snapshot(topic)
    assert without_headers(dictionary(topic)) == kept()

    produce(topic, by_plane[2_000:3_000])
    second = snapshot(topic)
    assert without_headers(dictionary(topic)) == kept()

    produce(topic, by_plane[3_000:])
    third = snapshot(topic, step_records=600)
    newest = without_headers(dictionary(topic))
    assert newest == kept()

    assert (2_000, 1_000, 1_000) == tuple(report.rows["records_read"] for report in (first, second, third))
    nameless = [sum(r["key"] is None for r in part) for part in (by_plane[:2_000], by_plane[2_000:3_000])]
    assert nameless == [first.rows["records_without_key"], second.rows["records_without_key"]]
    assert 0 < sum(nameless)
    deleted = {record["key"] for record in by_plane} - newest.keys() - {None}
    assert 0 < len(deleted) and 0 < third.rows["keys_deleted"]
    assert (len(newest), 0) == (third.rows["keys"], third.rows["keys_in_several_partitions"])
    assert (2, 4) == (third.rows["versions_written"], third.rows["version"])
    assert ["v0000003", "v0000004"] == versions(tmp_path / "snapshot")

    unchanged = snapshot(topic)
    assert (0, 4) == (unchanged.rows["versions_written"], unchanged.rows["version"])
    full = snapshot(topic, full=True, headers=True)
    assert FLIGHTS == full.rows["records_read"]
    assert dictionary(topic) == kept()


class Crash(BaseException):
    pass


def test_a_crash_before_the_manifest_leaves_the_last_version(
    snapshot, kept, dictionary, make_topic, produce, by_plane, tmp_path, monkeypatch
):
    """An incomplete version, or a complete one that is not committed, is never read; the next run writes it again."""
    topic = make_topic(partitions=2)
    produce(topic, by_plane[:300])
    snapshot(topic)
    before = without_headers(dictionary(topic))
    produce(topic, by_plane[300:600])

    def crash(*_):
        raise Crash

    for step in ("commit", "_sync"):
        with monkeypatch.context() as patched, pytest.raises(Crash):
            patched.setattr(manifest, step, crash)
            snapshot(topic)
        assert before == kept()
        assert ["v0000001", "v0000002"] == versions(tmp_path / "snapshot")
    (tmp_path / "snapshot" / "v0000002" / "part-garbage.parquet").write_text("half a file")

    report = snapshot(topic)

    assert without_headers(dictionary(topic)) == kept()
    assert (300, 2) == (report.rows["records_read"], report.rows["version"])


@soak_only
def test_a_key_in_several_partitions_has_the_newest_timestamp(snapshot, kept, make_topic, produce):
    """If a key is in several partitions, the record with the newest timestamp wins.  Within a partition, the offset
    decides, even if timestamps go backwards.  Keys in several partitions are counted.
    """
    topic = make_topic(partitions=3)
    second = 1_357_034_400_000
    produce(topic, [{"key": "a", "value": "a0", "partition": 0, "timestamp": second + 9_000}])
    produce(topic, [{"key": "a", "value": "a1", "partition": 0, "timestamp": second + 1_000}])
    produce(topic, [{"key": "a", "value": "a2", "partition": 1, "timestamp": second + 5_000}])
    produce(topic, [{"key": "b", "value": "b0", "partition": 1, "timestamp": second}])
    produce(topic, [{"key": "b", "value": "b1", "partition": 2, "timestamp": second}])
    produce(topic, [{"key": "c", "value": "c0", "partition": 0, "timestamp": second}])
    produce(topic, [{"key": "c", "value": None, "partition": 2, "timestamp": second + 1}])

    report = snapshot(topic)

    assert {b"a": b"a2", b"b": b"b1"} == {key: row[0] for key, row in kept().items()}
    assert 3 == report.rows["keys_in_several_partitions"]


@soak_only
def test_an_empty_topic_has_an_empty_snapshot(snapshot, kept, make_topic, produce):
    topic = make_topic(partitions=2)

    report = snapshot(topic)
    assert ({}, 0, 1) == (kept(), report.rows["keys"], report.rows["version"])

    produce(topic, [{"key": "a", "value": None}, {"key": None, "value": "x"}])
    report = snapshot(topic)
    assert ({}, 1, 1) == (kept(), report.rows["keys_deleted"], report.rows["records_without_key"])


@soak_only
def test_a_continuous_run_follows_the_topic(
    spark, bootstrap, kept, dictionary, make_topic, produce, by_plane, tmp_path
):
    topic = make_topic(partitions=2)
    produce(topic, by_plane[:100])
    parts = [by_plane[100:200], by_plane[200:300]]
    looks = []

    def is_done():
        looks.append(len(looks))
        current = manifest.read(tmp_path / "snapshot")
        if parts and current is not None and current.version == 3 - len(parts):
            produce(topic, parts.pop(0))
        return current is not None and current.version == 3

    pipeline = pipelines.snapshot.pipeline
    job = make_job(
        spark, pipeline, {"topic": topic, "to": str(tmp_path / "snapshot"), "interval": "1s"},
        state=tmp_path / "state", bootstrap_servers=bootstrap, is_continuous=True, stop_requested=is_done,
    )  # fmt: skip

    report = run(pipeline, job)

    assert (3, 300) == (report.rows["version"], report.rows["records_read"])
    assert without_headers(dictionary(topic)) == kept()


@soak_only
def test_the_plan_estimates_keys_and_writes_nothing(spark, bootstrap, make_topic, produce, by_plane, tmp_path):
    topic = make_topic(partitions=2)
    produce(topic, by_plane[:500])

    plan = pipelines.snapshot.plan(
        spark, topic=topic, to=str(tmp_path / "snapshot"), state=tmp_path / "state", bootstrap_servers=bootstrap
    )

    rows = dict(plan.rows)
    keys = len({record["key"] for record in by_plane[:500]} - {None})
    assert ("500", "none", "the whole topic") == (rows["offsets"], rows["last version"], rows["read"])
    assert abs(int(rows["keys"].split()[1].rstrip(",")) - keys) < keys * 0.15
    assert [] == list(tmp_path.iterdir())


@soak_only
def test_a_snapshot_that_cannot_be_continued_is_refused(snapshot, make_topic, produce, bootstrap, tmp_path):
    from confluent_kafka.admin import AdminClient

    topic = make_topic()
    produce(topic, [{"key": str(number), "value": "x"} for number in range(10)])
    snapshot(topic)
    with pytest.raises(SnapshotRefused, match=r"headers=true: to=.* has a snapshot with headers=false; use the same"):
        snapshot(topic, headers=True)
    with pytest.raises(SnapshotRefused, match=r"topic=spark-.*has a snapshot of topic 'spark-"):
        snapshot(make_topic(), state=tmp_path / "other")

    produce(topic, [{"key": str(number), "value": "x"} for number in range(10)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    gone = confluent_kafka.TopicPartition(topic, 0, 15)
    admin.delete_records([gone])[gone].result(30)
    with pytest.raises(
        SnapshotRefused, match=r"before offset 10, and topic .* has offsets 15 to 20: records in between"
    ):
        snapshot(topic)

    assert 5 == snapshot(topic, full=True).rows["keys"]


def test_a_directory_without_a_snapshot_is_refused(spark, tmp_path):
    with pytest.raises(SnapshotRefused, match=r"is not a snapshot: it has no file _snapshot.json; check the path"):
        pipelines.snapshot.read(spark, tmp_path)
