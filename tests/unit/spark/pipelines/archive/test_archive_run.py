"""
Runs of an archive against a model of a topic, without Spark: kills between any two steps, and the content of reports.
"""

import random
from datetime import UTC, datetime

import pytest

from tidemill.columnar.data_loss import DataLossError
from tidemill.columnar.size_profile import SizeProfile
from tidemill.model.partition import TopicPartition
from tidemill.spark.pipelines.archive import archive_run, batch_write, manifest
from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused
from tidemill.spark.pipelines.archive.next_batch import TopicBounds
from tidemill.spark.pipelines.archive.parquet_target import ParquetTarget
from tidemill.spark.pipelines.archive.pipeline import PIPELINE
from tidemill.spark.pipelines.frame.run import make_job, run

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")
from pyarrow import parquet  # noqa: E402


class Killed(BaseException):
    """Raised to simulate that the process is killed."""


class ModelTopic:
    """A topic that grows each time its bounds are requested.  It replaces both the cluster and Spark's write."""

    def __init__(self, monkeypatch):
        self.ends = {0: 0, 1: 0}
        self.earliest = {0: 0, 1: 0}
        self.topic_id = "id"
        self.growth = 0
        self.kills_at = None  # the number of the step at which the process is killed, counted over all kinds of steps
        self._steps = 0
        monkeypatch.setattr(archive_run, "SourceTopic", lambda kafka, topic: self)
        monkeypatch.setattr(batch_write, "write", self.write)
        for name in ("stage", "commit", "clean"):
            self._between(monkeypatch, ParquetTarget, name)

    def _between(self, monkeypatch, owner, name):
        real = getattr(owner, name)

        def call(*arguments):
            self.step()
            result = real(*arguments)
            self.step()
            return result

        monkeypatch.setattr(owner, name, call)

    def step(self):
        self._steps += 1
        if self._steps == self.kills_at:
            raise Killed

    def close(self):
        pass

    def bounds(self, last=None):
        self.step()
        self.ends = {partition: end + self.growth for partition, end in self.ends.items()}
        named = [{TopicPartition("t", p): offset for p, offset in it.items()} for it in (self.earliest, self.ends)]
        return TopicBounds(topic="t", topic_id=self.topic_id, earliest=named[0], latest=named[1])

    def profiles(self, batch):
        return {
            one: SizeProfile((batch.starts[one], batch.ends[one]), (100 * (batch.ends[one] - batch.starts[one]),))
            for one in batch.to_read
        }

    def write(self, spark, kafka, batch, staging, *, partition_by, files, on_data_loss):
        self.step()
        for one in batch.to_read:
            offsets = range(batch.starts[one], batch.ends[one])
            times = [datetime.fromtimestamp(offset, UTC) for offset in offsets]
            table = pa.table({"partition": [one.partition] * len(offsets), "offset": offsets, "timestamp": times})
            staging.data.mkdir(exist_ok=True)
            parquet.write_table(table, staging.data / f"{one.partition}.parquet")
            self.step()


@pytest.fixture
def topic(monkeypatch):
    return ModelTopic(monkeypatch)


@pytest.fixture
def archive(tmp_path):
    def once(**options):
        job = make_job(
            None,
            PIPELINE,
            {"topic": "t", "to": str(tmp_path / "archive"), "partition_by": "none", **options},
            state=tmp_path / "state",
            bootstrap_servers="nowhere:1",
        )
        return run(PIPELINE, job)

    return once


def archived(tmp_path):
    found = []
    for file in manifest.data_files(tmp_path / "archive"):
        table = parquet.read_table(file)
        found += zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_runs_that_are_killed_at_any_step_archive_each_offset_once(topic, archive, tmp_path, seed):
    """
    While a topic grows, runs are killed before or after any step.  After a last run that is not killed, the archive
    contains each offset once.
    """
    chance = random.Random(seed)
    kills = 0
    for _ in range(15):
        topic.growth = chance.randrange(4)
        topic._steps, topic.kills_at = 0, chance.randrange(1, 40)
        try:
            archive(batch_records=chance.randrange(1, 20))
        except Killed:
            kills += 1
    topic.kills_at, topic.growth = None, 0

    archive()

    assert kills > 3
    everything = {(partition, offset) for partition, end in topic.ends.items() for offset in range(end)}
    found = archived(tmp_path)
    assert (len(everything), everything) == (len(found), set(found))
    assert {*(tmp_path / "archive").rglob("*.parquet")} == {*manifest.data_files(tmp_path / "archive")}


def test_a_run_ends_at_the_end_that_the_topic_had_at_its_start(topic, archive):
    """
    Even if a topic grows faster than it is archived, a run ends.
    """
    topic.ends, topic.growth = {0: 30, 1: 20}, 10

    report = archive(batch_records=10)

    assert (True, 70, 0) == (report.rows["batches"] >= 7, report.rows["records"], report.rows["lost offsets"])
    assert [(0, 0, 40), (1, 0, 30)] == list(report.tables[0].rows)


def test_lost_records_fail_the_run_unless_it_may_skip_them(topic, archive, tmp_path):
    """
    If records are lost, a run fails with an error that names the offsets and the option on_data_loss.  With `skip` and
    `report`, the rest is archived and the manifest contains the lost offsets; only `report` also lists them at the end.
    """
    topic.ends = {0: 10, 1: 0}
    archive()
    topic.ends, topic.earliest = {0: 30, 1: 8}, {0: 20, 1: 8}

    with pytest.raises(DataLossError, match=r"offsets 10 to 20 of t-0, 0 to 8 of t-1 were removed .*on_data_loss=skip"):
        archive()
    skipped = archive(on_data_loss="skip")
    topic.ends, topic.earliest = {0: 40, 1: 8}, {0: 35, 1: 8}
    reported = archive(on_data_loss="report")

    assert [(18, 1), (5, 2)] == [(it.rows["lost offsets"], len(it.tables)) for it in (skipped, reported)]
    assert [(0, 30, 35)] == list(reported.tables[1].rows)
    assert [[], [(0, 10, 20), (1, 0, 8)], [(0, 30, 35)]] == [
        [(it.partition, it.start, it.end) for it in entry.lost] for entry in manifest.entries(tmp_path / "archive")
    ]


def test_a_topic_that_is_created_again_while_it_is_read_is_not_archived(topic, archive, tmp_path, monkeypatch):
    """
    Spark may have read records of the old topic and of the new one, so the batch is not committed.
    """
    topic.ends = {0: 10, 1: 0}
    write = topic.write

    def recreate(*arguments, **keywords):
        write(*arguments, **keywords)
        topic.topic_id = "another"

    monkeypatch.setattr(batch_write, "write", recreate)

    with pytest.raises(ArchiveRefused, match="t was deleted and created again"):
        archive()

    assert [] == archived(tmp_path)
