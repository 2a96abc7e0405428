"""The pipeline `replay` with --into-timer and a real broker: records are due with the distances of their timestamps."""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tidemill import arrow
from tidemill.spark import pipelines
from tidemill.spark.pipelines.frame.state_directory import StateDirectory
from tidemill.spark.pipelines.replay.schedule import DueTimes

FIRST_MS = 1_357_034_400_000  # in 2013
COUNT = 600


@pytest.fixture
def replay(spark, bootstrap, tmp_path):
    def start(topic, to, **options):
        options = {"state": tmp_path / "state", "into_timer": True, **options}
        return pipelines.replay(spark, topic=topic, to=to, bootstrap_servers=bootstrap, **options)

    return start


@pytest.fixture
def rows(bootstrap):
    def read(topic, **options):
        table = arrow.read(topic, bootstrap_servers=bootstrap, includeHeaders=True, **options).read_all()
        return table.to_pylist()

    return read


@pytest.fixture
def timer_topic(make_topic):
    return lambda partitions=1: make_topic(partitions, **{"tidemill.kind": "timer"})


def milliseconds(moment):
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def test_records_are_delivered_with_the_distances_of_their_timestamps(replay, rows, make_topic, timer_topic, produce):
    """
    With shift=to-now and a speed, the first record is due now, and no record comes before it is due.  Headers of timers
    that a record has already do not change when it is due.
    """
    topic, to = make_topic(partitions=2), timer_topic(2)
    seconds = [0, 1, 1, 300, 300, 301, 600, 1_100]
    old = [
        ("tidemill-deliver-at", b"32503680000000"),
        ("tidemill-timer-id", b"one"),
        ("tidemill-schedule", b"every 1s"),
    ]
    produce(
        topic,
        [
            {"key": str(s), "value": str(n), "timestamp": FIRST_MS + s * 1_000, "headers": [("n", str(n)), *old]}
            for n, s in enumerate(seconds)
        ],
    )  # fmt: skip

    before_ms = time.time_ns() // 1_000_000
    report = replay(topic, to, shift="to-now", speed=100)
    assert ("complete", len(seconds)) == (report.rows["status"], report.rows["records_written"])

    ends_at = time.monotonic() + 60
    while len(found := rows(to)) < len(seconds):
        assert time.monotonic() < ends_at, f"{len(found)} of {len(seconds)} records are delivered"
        time.sleep(0.1)
    due = {}
    for row in found:
        headers = [(it["key"], it["value"]) for it in row["headers"]]
        names = ["n", "tidemill-deliver-at", "tidemill-arrival", "tidemill-timestamp"]
        assert sorted(names) == sorted(name for name, _ in headers)
        told = dict(headers)
        assert row["value"] == told["n"]
        due[int(told["n"])] = int(told["tidemill-deliver-at"])
        assert FIRST_MS + seconds[int(told["n"])] * 1_000 == int(told["tidemill-timestamp"])
        assert milliseconds(row["timestamp"]) >= due[int(told["n"])]
    assert before_ms <= due[0] <= before_ms + 60_000
    assert {n: second * 10 for n, second in enumerate(seconds)} == {n: at - due[0] for n, at in due.items()}


class Interrupted(Exception):
    pass


def test_a_run_that_resumes_goes_on_with_the_same_due_times(
    replay, rows, make_topic, timer_topic, produce, monkeypatch
):
    """
    The first record that the filter selects sets the times, once; what an interrupted step has stored already is
    counted by arrival numbers, because what waits has no offset.
    """
    topic, to = make_topic(partitions=2), timer_topic(3)
    produce(topic, [
        {"key": b"k%d" % (n % 7), "value": b"%d" % n, "timestamp": FIRST_MS + 1_001 * n, "partition": n % 2}
        for n in range(COUNT)
    ])  # fmt: skip
    options = {"shift": "36500d", "speed": 2.0, "filter": "CAST(CAST(value AS STRING) AS INT) >= 100"}
    write = StateDirectory.write

    def interrupt(self, name, value):
        if name == "replay" and value["counts"]["steps"] == 2:
            raise Interrupted
        write(self, name, value)

    with monkeypatch.context() as patched:
        patched.setattr(StateDirectory, "write", interrupt)
        with pytest.raises(Interrupted):
            replay(topic, to, step_records=200, **options)
    with pytest.raises(ValueError, match=r"speed=3\.0: state=.* belongs to a run with speed=2\.0"):
        replay(topic, to, step_records=200, **{**options, "speed": 3.0})
    report = replay(topic, to, step_records=200, **options)

    waiting = rows(to, records="waiting")
    first_ms = FIRST_MS + 1_001 * 100
    times = DueTimes(first_timestamp_ms=first_ms, first_due_ms=first_ms + 36_500 * 86_400_000, speed=2.0)
    for row in waiting:
        timestamp_ms = FIRST_MS + 1_001 * int(row["value"])
        assert timestamp_ms == milliseconds(row["timestamp"])
        assert times.due_ms(timestamp_ms) == milliseconds(row["deliver_at"])
    counts = Counter(int(row["value"]) for row in waiting)
    assert set(range(100, COUNT)) == set(counts)
    repeated = sum(count - 1 for count in counts.values())
    assert 200 == repeated == report.rows["records_repeated_at_most"]
    assert (COUNT - 100, "complete") == (report.rows["records_written"], report.rows["status"])


def test_the_plan_says_when_records_are_due(spark, bootstrap, make_topic, timer_topic, produce, rows, tmp_path):
    topic, to = make_topic(), timer_topic()
    produce(topic, [{"value": b"v", "timestamp": FIRST_MS + 1_000 * n} for n in range(11)])

    plan = pipelines.replay.plan(
        spark, topic=topic, to=to, bootstrap_servers=bootstrap, state=tmp_path / "state",
        into_timer=True, shift="365d", speed=10.0,
    )  # fmt: skip

    assert ("due", "2014-01-01T10:00:00Z to 2014-01-01T10:00:01Z") in plan.rows
    assert [] == rows(to, records="waiting") == rows(to)


def test_only_timer_topics_and_all_timer_topics_need_the_option(replay, make_topic, timer_topic, rows, produce):
    topic, log, timers = make_topic(), make_topic(), timer_topic()
    produce(topic, [{"value": b"v"}])

    with pytest.raises(
        ValueError, match=f"into_timer=true needs a timer topic, and '{log}' is of kind log: create one"
    ):
        replay(topic, log)
    with pytest.raises(ValueError, match=f"topic '{timers}' is of kind timer: set into_timer, so that records wait"):
        replay(topic, timers, into_timer=False)

    assert [] == rows(log) == rows(timers) == rows(timers, records="waiting")
