"""`tidemill.arrow` with timer topics of a real broker: rows that say when they are due, and reading what waits."""

import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidemill import arrow
from tidemill.columnar.row_faults import RowRefused

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MOMENT = pa.timestamp("us", tz="UTC")
COUNT = 2_500  # more than two pages of a partition hold


@pytest.fixture
def timer_topic(make_topic):
    return lambda partitions=1: make_topic(partitions, **{"tidemill.kind": "timer"})


@pytest.fixture
def write(bootstrap):
    return lambda topic, table, **options: arrow.write(topic, table, bootstrap_servers=bootstrap, **options)


@pytest.fixture
def read(bootstrap):
    return lambda topic, **options: arrow.read(topic, bootstrap_servers=bootstrap, **options).read_all()


def later(**distance):
    return datetime.now(UTC).replace(microsecond=0) + timedelta(**distance)


def test_rows_wait_until_they_are_due(write, read, timer_topic):
    """
    What is due later can be read as a table, and what is due is delivered, with the headers that say so.
    """
    topic = timer_topic()
    due = later(hours=5).replace(microsecond=123_001)
    written = datetime(2013, 1, 1, 10, 0, 0, 123_000, tzinfo=UTC)
    table = pa.table(
        {
            "key": pa.array([b"a", b"b", None], pa.binary()),
            "value": pa.array([b"later", b"at once", b"also at once"], pa.binary()),
            "headers": pa.array([[("z", b"1"), ("a", None)], None, None], HEADERS),
            "timestamp": pa.array([written, written, written], MOMENT),
            "deliver_at": pa.array([due, None, written], MOMENT),
            "timer_id": pa.array([b"\xff", None, b"x"], pa.binary()),
        }
    )

    assert 3 == write(topic, table).records

    ends_at = time.monotonic() + 20
    while (released := read(topic, includeHeaders=True)).num_rows < 2:
        assert time.monotonic() < ends_at, f"only {released.num_rows} records are delivered"
        time.sleep(0.05)
    (waits,) = read(topic, records="waiting", includeHeaders=True).to_pylist()
    assert {
        "key": b"a",
        "value": b"later",
        "topic": topic,
        "partition": 0,
        "timestamp": written,
        "headers": [{"key": "z", "value": b"1"}, {"key": "a", "value": None}],
        "arrival": 0,
        "deliver_at": due.replace(microsecond=124_000),  # rounded up to a millisecond
        "timer_id": b"\xff",
    } == waits
    assert {b"at once", b"also at once"} == {*released["value"].to_pylist()}
    headers = {row["value"]: {it["key"]: it["value"] for it in row["headers"]} for row in released.to_pylist()}
    assert b"x" == headers[b"also at once"]["tidemill-timer-id"]
    assert int(written.timestamp() * 1_000) == int(headers[b"also at once"]["tidemill-deliver-at"])
    assert "tidemill-deliver-at" not in headers[b"at once"]


def test_many_records_are_read_page_by_page_and_can_be_copied(write, read, bootstrap, timer_topic):
    """
    Every record that waits is read once, and the rows can be written to another timer topic as they are.
    """
    topic, copy = timer_topic(2), timer_topic(3)
    due_ms = int(later(days=1).timestamp() * 1_000)
    table = pa.table(
        {
            "key": pa.array([str(it) for it in range(COUNT)]),
            "value": pa.array([b"v%d" % it for it in range(COUNT)], pa.binary()),
            "partition": pa.array([it % 10 // 9 for it in range(COUNT)]),
            "deliver_at": pa.array([due_ms - it for it in range(COUNT)], pa.int64()),
        }
    )
    write(topic, table)

    waiting = read(topic, records="waiting")
    ordered = waiting.sort_by([("deliver_at", "descending")])
    assert table["value"].to_pylist() == ordered["value"].to_pylist()
    assert table["deliver_at"].to_pylist() == pc.divide(ordered["deliver_at"].cast(pa.int64()), 1_000).to_pylist()
    for partition, count in enumerate((COUNT * 9 // 10, COUNT // 10)):
        arrivals = waiting.filter(pc.equal(waiting["partition"], partition))["arrival"].to_pylist()
        assert list(range(count)) == arrivals

    write(copy, arrow.read(topic, bootstrap_servers=bootstrap, records="waiting", includeHeaders=True).read_all().drop(
        ["partition"]))  # fmt: skip
    columns = ["key", "value", "deliver_at", "timer_id"]
    copied = read(copy, records="waiting", columns=columns).sort_by([("deliver_at", "descending")])
    assert ordered.select(columns) == copied


def test_a_later_row_with_the_same_timer_id_replaces_the_one_that_waits(write, read, timer_topic):
    topic = timer_topic()
    for value in ("first", "second"):
        write(topic, pa.table({"value": [value], "deliver_at": [later(hours=1)], "timer_id": ["reminder"]}))

    assert [b"second"] == read(topic, records="waiting", columns=["value"])["value"].to_pylist()


def test_what_a_timer_topic_refuses_names_the_row_and_nothing_is_written(write, read, timer_topic):
    topic = timer_topic()
    table = pa.table({"value": ["a", "b"], "deliver_at": pa.array([later(hours=1).timestamp() * 1_000, 5], pa.int64())})

    with pytest.raises(RowRefused, match=r"row 1: deliver_at is 5: a number is ms since the epoch, and this one looks"):
        write(topic, table)

    assert 0 == read(topic, records="waiting").num_rows


def test_only_timer_topics_take_due_times_and_have_waiting_records(write, read, make_topic):
    topic = make_topic()
    sentence = "it is of kind log, and only timer topics delay records; create one with `tidemill topics create NAME"

    with pytest.raises(ValueError, match=f"topic '{topic}' does not take the columns .*: {sentence}"):
        write(topic, pa.table({"value": ["a"], "deliver_at": [later(hours=1)]}))
    with pytest.raises(ValueError, match=f"records=waiting cannot read topic '{topic}': {sentence}"):
        read(topic, records="waiting")

    assert 0 == read(topic).num_rows


def test_times_without_a_time_zone_are_refused(write, timer_topic):
    table = pa.table({"value": ["a"], "deliver_at": [datetime(2030, 1, 1)]})  # noqa: DTZ001 - without one on purpose

    with pytest.raises(ValueError, match=r"deliver_at attribute has type timestamp\[us\], without a time zone"):
        write(timer_topic(), table)
