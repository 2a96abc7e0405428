"""Commits of batches to a directory, including commits that are interrupted at any system call."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.spark.pipelines.archive.test_batch_entry import entry
from tidemill.spark.pipelines.archive import manifest, parquet_target
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused, LostOffsets
from tidemill.spark.pipelines.archive.parquet_target import ParquetTarget
from tidemill.spark.pipelines.archive.staging import Staging, merged

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")
from pyarrow import parquet  # noqa: E402


class Killed(BaseException):
    """Raised to simulate that the process is killed: the code under test does not catch it."""


def stage(target, number, offsets, *, directory="date=2013-01-01/hour=05"):
    staging = target.stage(number)
    folder = staging.data / directory
    folder.mkdir(parents=True)
    times = pa.array([datetime.fromtimestamp(offset, UTC) for offset in offsets], pa.timestamp("us", "UTC"))
    table = pa.table(
        {"offset": list(offsets), "timestamp": times, "headers": [[{"key": "a", "value": b"b"}]] * len(offsets)}
    )
    parquet.write_table(table, folder / "part-0.parquet")
    parquet.write_table(table.slice(0, 0), folder / "part-1.parquet")
    (staging.data / "_SUCCESS").touch()
    return staging


def batch(staging, start, end):
    files = list(staging.files())
    return replace(
        entry(staging.number, {0: (start, end)}), batch_id=staging.batch_id, files=tuple(file for _, file in files)
    ), files


def opened(path):
    """Return a target that a run has already locked once."""
    target = ParquetTarget(path)
    with target.locked():
        return target


def commit(target, number, start, end):
    staging = stage(target, number, range(start, end))
    return target.commit(staging, *batch(staging, start, end))


def archived(path):
    """Return the offsets in the data files of the manifest, in the order of the manifest."""
    files = manifest.data_files(path)
    return [offset for file in files for offset in parquet.ParquetFile(file).read()["offset"].to_pylist()]


def test_batches_are_committed_one_after_the_other(tmp_path):
    """
    The files of a committed batch are in the directories of their partitions, and the entry describes them as their
    footers do.  Files without rows are left out.
    """
    target = opened(tmp_path)

    first, second = commit(target, 0, 0, 5), commit(target, 1, 5, 8)

    assert [first, second] == list(manifest.entries(tmp_path))
    assert second == target.last() == manifest.last_entry(tmp_path)
    (file,) = second.files
    assert f"date=2013-01-01/hour=05/0000000001-00000-{second.batch_id}.parquet" == file.path
    assert (3, 5_000, 7_000) == (file.rows, file.timestamp_ms_min, file.timestamp_ms_max)
    assert (tmp_path / file.path).stat().st_size == file.bytes
    assert [*range(8)] == archived(tmp_path)
    assert [] == list((tmp_path / "_staging").iterdir())


def test_a_new_directory_has_no_batch(tmp_path):
    """
    Reading a target creates nothing, and only a directory with a manifest is an archive.
    """
    target = ParquetTarget(tmp_path / "new")

    assert target.last() is None
    assert not (tmp_path / "new").exists()
    with pytest.raises(ArchiveRefused, match="new is not an archive"):
        manifest.data_files(tmp_path / "new")


def kill_at_call(monkeypatch, count):
    """Kill the process at the call number `count` of those that change the disk."""
    left = [count]

    def counted(real):
        def call(*arguments, **keywords):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*arguments, **keywords)

        return call

    for module, name in [(os, "link"), (os, "fsync"), (parquet_target.Path, "rename"), (Staging, "remove")]:
        monkeypatch.setattr(module, name, counted(getattr(module, name)))


def test_a_commit_that_is_killed_at_any_call_is_whole_or_not_at_all(tmp_path, monkeypatch):
    """
    After a kill at any call that changes the disk, the next run finds either the batch committed with all its files, or
    no trace of the batch.
    """
    outcomes = set()
    for calls in range(100):
        path = tmp_path / str(calls)
        target = ParquetTarget(path)
        with target.locked():
            commit(target, 0, 0, 3)
        with monkeypatch.context() as patched:
            kill_at_call(patched, calls)
            try:
                commit(target, 1, 3, 6)
                is_killed = False
            except Killed:
                is_killed = True
        if not is_killed:
            break
        later = ParquetTarget(path)
        with later.locked():
            last = later.last()
            later.clean(last)
            outcomes.add(last.number)
            everywhere = sorted(file for file in path.rglob("*.parquet"))
            assert everywhere == sorted(manifest.data_files(path)), f"killed at call {calls}"
            commit(later, last.number + 1, last.ends[0], 9)
        assert [*range(9)] == archived(path), f"killed at call {calls}"
    assert ({0, 1}, True) == (outcomes, calls > 8)


def test_a_killed_batch_whose_number_was_committed_later_is_removed(tmp_path):
    """
    The batch id distinguishes a committed batch from a killed one that had the same number.
    """
    target = opened(tmp_path)
    killed = stage(target, 0, range(4))
    files = list(killed.files())
    left_behind = tmp_path / f"date=2013-01-01/hour=05/0000000000-00000-{killed.batch_id}.parquet"
    commit(target, 0, 0, 3)
    lost_entry, _ = batch(killed, 0, 4)
    named = replace(files[0][1], path=left_behind.relative_to(tmp_path).as_posix())
    (killed.path / "entry.json").write_text(json.dumps(replace(lost_entry, files=(named,)).to_json()))
    files[0][0].rename(left_behind)

    target.clean(target.last())

    assert not left_behind.exists()
    assert [*range(3)] == archived(tmp_path)


def test_two_runs_do_not_write_at_once(tmp_path):
    """
    A second run is refused while the first one is running.  On a file system without shared locks, the second run's
    commit is refused.
    """
    first, second = ParquetTarget(tmp_path), ParquetTarget(tmp_path)
    with (
        first.locked(),
        pytest.raises(ArchiveRefused, match=f"is being written by process {os.getpid()}: wait"),
        second.locked(),
    ):
        pass
    with second.locked():
        pass
    commit(first, 0, 0, 3)

    with pytest.raises(ArchiveRefused, match="another run has taken over batch 0 meanwhile"):
        commit(second, 0, 0, 4)

    second.clean(second.last())
    assert [*range(3)] == archived(tmp_path)
    assert 1 == len(list(tmp_path.rglob("*.parquet")))


def test_a_run_whose_staging_directory_was_removed_commits_nothing(tmp_path):
    """
    On a file system without shared locks, a run may assume that another run was killed; that other run can then no
    longer commit.
    """
    slow, other = opened(tmp_path), opened(tmp_path)
    staging = stage(slow, 0, range(3))
    work = batch(staging, 0, 3)
    link = slow._link

    def overtaken(*arguments):
        other.clean(other.last())
        link(*arguments)

    slow._link = overtaken
    with pytest.raises(ArchiveRefused, match="another run has taken over batch 0"):
        slow.commit(staging, *work)

    assert other.last() is None
    assert [] == [*tmp_path.rglob("*.parquet"), *(tmp_path / "_staging").iterdir()]


def test_a_gap_in_the_manifest_is_refused(tmp_path):
    """
    Readers refuse a manifest with a missing entry instead of skipping it.
    """
    target = opened(tmp_path)
    for number in range(3):
        commit(target, number, number, number + 1)
    manifest.entry_path(tmp_path, 1).unlink()

    with pytest.raises(ArchiveRefused, match="has batch 2 where batch 1 is due"):
        manifest.data_files(tmp_path)


def test_losses_that_tasks_report_are_merged(tmp_path):
    """
    Tasks that Spark has repeated report the same offsets again; the merged result contains each offset once.
    """
    staging = Staging(0, "a", tmp_path)
    staging.losses.mkdir()
    for number, (partition, start, end) in enumerate([(1, 0, 5), (0, 7, 9), (0, 3, 7), (1, 0, 6), (1, 8, 9)]):
        row = {"partition": partition, "start_offset": start, "end_offset": end, "topic": "t", "what": "gone"}
        (staging.losses / f"{number}.json").write_text(json.dumps(row) + "\n")

    lost = merged(staging.lost())

    assert [(0, 3, 9), (1, 0, 6), (1, 8, 9)] == [(it.partition, it.start, it.end) for it in lost]
    assert (LostOffsets(partition=0, start=3, end=9),) == lost[:1]
    assert [] == Staging(0, "a", tmp_path / "none").lost()
