"""Commits of batches to an Iceberg table in an SQLite catalog."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.spark.pipelines.archive.test_batch_entry import entry
from tidemill.spark.pipelines.archive import iceberg_target
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused
from tidemill.spark.pipelines.archive.options import ArchiveOptions
from tidemill.spark.pipelines.frame.option_values import build
from tidemill.spark.pipelines.frame.state_directory import StateDirectory

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")
pytest.importorskip("pyiceberg", reason="extra 'iceberg' is not installed")
from pyarrow import parquet  # noqa: E402
from pyiceberg.exceptions import CommitFailedException  # noqa: E402

from tidemill.spark.pipelines.archive.iceberg_target import IcebergTarget  # noqa: E402

HOUR = 3_600
ROWS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


@pytest.fixture
def open_target(tmp_path):
    opened = []

    def make(state="state", **options):
        properties = [f"uri=sqlite:///{tmp_path}/catalog.db", f"warehouse=file://{tmp_path}/warehouse"]
        given = {"topic": "flights", "to": "archive.flights", "format": "iceberg", "iceberg_property": properties}
        target = IcebergTarget(build(ArchiveOptions, {**given, **options}), StateDirectory(tmp_path / state))
        opened.append(target)
        return target

    yield make
    for target in opened:
        target.close()


def stage(target, number, start, end):
    """Stage two files, each with records of a different hour."""
    staging = target.stage(number)
    middle = (start + end) // 2
    for hour, offsets in enumerate((range(start, middle), range(middle, end))):
        rows = [
            {
                "value": b"v",
                "topic": "flights",
                "partition": 0,
                "offset": offset,
                "timestamp": datetime.fromtimestamp(hour * HOUR + offset, UTC),
                "timestampType": 0,
                "headers": [{"key": "a", "value": b"b"}],
            }
            for offset in offsets
        ]
        folder = staging.data / f"date=1970-01-01/hour={hour:02}"
        folder.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(rows, ROWS), folder / "part-0.parquet")
    return staging


def commit(target, number, start, end):
    staging = stage(target, number, start, end)
    made = replace(entry(number, {0: (start, end)}), batch_id=staging.batch_id)
    return target.commit(staging, made, list(staging.files()))


def rows(target):
    return target._table().scan().to_arrow().sort_by("offset")


@pytest.mark.parametrize("partition_by", ["date,hour", "date", "none"])
def test_batches_are_snapshots(open_target, partition_by):
    """
    Each batch is one snapshot, which contains the batch's entry.  Another process reads the newest entry and the rows
    of all batches.
    """
    target = open_target(partition_by=partition_by)
    assert target.last() is None and target._table() is None
    with target.locked():
        first, second = commit(target, 0, 0, 10), commit(target, 1, 10, 20)

    later = open_target(partition_by=partition_by)

    assert second == later.last()
    assert (("0", "1"), ()) == (
        tuple(it.summary["tidemill.archive.batch"] for it in later._table().snapshots()),
        first.files,
    )
    found = rows(later)
    assert [*range(20)] == found["offset"].to_pylist()
    assert [[{"key": "a", "value": b"b"}]] * 20 == found["headers"].to_pylist()


def test_a_batch_without_rows_moves_the_offsets_on(open_target):
    """
    If all offsets of a batch are gaps or lost, the next batch still begins after them.
    """
    target = open_target()
    staging = target.stage(0)
    target.commit(staging, entry(0, {0: (0, 7)}), [])

    assert {0: 7} == target.last().ends


def test_snapshots_of_other_writers_are_passed_over(open_target):
    """
    A snapshot that another writer has added contains no entry, so the entry of the snapshot before it is used.
    """
    target = open_target(partition_by="none")
    committed = commit(target, 0, 0, 10)
    target._table().delete("offset < 3")

    assert committed == target.last()
    commit(target, 1, 10, 12)
    assert [*range(3, 12)] == rows(target)["offset"].to_pylist()


def test_a_table_that_is_rolled_back_is_archived_again_from_there(open_target):
    """
    A run continues after the batch in the current snapshot, even if the table has newer snapshots.
    """
    target = open_target()
    first = commit(target, 0, 0, 10)
    commit(target, 1, 10, 20)
    table = target._table()
    table.manage_snapshots().set_current_snapshot(table.snapshots()[0].snapshot_id).commit()

    assert first == target.last()


def test_two_runs_do_not_commit_the_same_batch(open_target, monkeypatch):
    """
    A run is refused if another run has committed the same batch, even if that happens between the check and the commit.
    """
    one, other = open_target("one"), open_target("other")
    commit(one, 0, 0, 10)
    with pytest.raises(ArchiveRefused, match="another run has committed batch 0 meanwhile"):
        commit(other, 0, 0, 10)
    check = IcebergTarget._check_is_next
    overtaking = [True]

    def overtaken(self, table, made):
        check(self, table, made)
        if self is other and overtaking.pop():
            overtaking.append(False)
            commit(one, 1, 10, 20)

    monkeypatch.setattr(IcebergTarget, "_check_is_next", overtaken)
    with pytest.raises(ArchiveRefused, match="another run has committed batch 1 meanwhile"):
        commit(other, 1, 10, 20)

    assert [*range(20)] == rows(one)["offset"].to_pylist()


def test_a_commit_of_another_writer_may_come_first(open_target, monkeypatch):
    """
    A compaction between the check and the commit does not make the batch fail, but the number of commit attempts is
    limited.
    """
    target = open_target(partition_by="none")
    commit(target, 0, 0, 10)
    check = IcebergTarget._check_is_next
    overtakes = [1]

    def overtaken(self, table, made):
        check(self, table, made)
        if overtakes[0]:
            overtakes[0] -= 1
            target._table().delete(f"offset == {overtakes[0]}")

    monkeypatch.setattr(IcebergTarget, "_check_is_next", overtaken)
    commit(target, 1, 10, 20)
    assert [*range(1, 20)] == rows(target)["offset"].to_pylist()
    overtakes[0] = 10
    with pytest.raises(CommitFailedException):
        commit(target, 2, 20, 30)


def test_files_of_a_killed_run_are_removed_by_its_next_run_only(open_target, tmp_path):
    """
    The state directory names the files that a run was writing.  Committed files are kept, even if the state directory
    names them.
    """
    killed = open_target()
    commit(killed, 0, 0, 10)
    staging = stage(killed, 1, 10, 20)
    other = open_target("other")
    other.clean(other.last())
    assert staging.path.exists()

    later = open_target()
    later.clean(later.last())
    later.clean(later.last())

    assert not staging.path.exists()
    assert [*range(10)] == rows(later)["offset"].to_pylist()
    commit(later, 1, 10, 20)
    later.clean(later.last())
    assert [*range(20)] == rows(later)["offset"].to_pylist()


def test_a_table_that_is_no_archive_is_refused(open_target):
    """
    Neither a table of another application nor a table whose snapshots with entries have all expired is continued,
    because rows would be archived twice.
    """
    target = open_target(partition_by="none")
    catalog = target._catalog
    catalog.create_namespace("archive")
    catalog.create_table("archive.flights", iceberg_target._SCHEMA)
    with pytest.raises(ArchiveRefused, match=r"to=archive\.flights: this table is not an archive"):
        target.last()
    catalog.drop_table("archive.flights")
    commit(target, 0, 0, 10)
    table = target._table()
    table.delete("offset < 3")
    table = target._table()
    oldest = [it.snapshot_id for it in table.snapshots() if it.summary[iceberg_target.ENTRY] is not None]
    table.maintenance.expire_snapshots().by_ids(oldest).commit()

    with pytest.raises(ArchiveRefused, match=r"no snapshot has the property tidemill\.archive\.entry any more"):
        target.last()
