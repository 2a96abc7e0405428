"""kill -9 of drivers, executors and brokers while Spark jobs run: what each job promises holds after it is run again.

The seed determines the job, the moment and the killed process.  TIDEMILL_KILL_SEED repeats an earlier run's choices.
With TIDEMILL_FAULTS=all there are 51 kills instead of two; in the test suite, `test_queue_mode` kills executors.
"""

import os
import random
from pathlib import Path
from typing import Final

import pytest

from benchmarks.tidemill_broker import TidemillBroker
from tests.fault.cluster_processes import wait_until
from tests.fault.extent import soak_only, times

pytest.importorskip("pyspark", reason="extra 'spark' is not installed")

from tests.fault.spark_jobs.archive_job import ArchiveJob, ArchiveTableJob
from tests.fault.spark_jobs.archived_rows import differences, rows_of
from tests.fault.spark_jobs.backfill_job import BackfillJob
from tests.fault.spark_jobs.driver import RUN_SECONDS_MAX, SparkDriver
from tests.fault.spark_jobs.job import KillableJob
from tests.fault.spark_jobs.replay_job import ReplayJob
from tests.fault.spark_jobs.scene import JobScene, Victim
from tests.fault.spark_jobs.sink_job import SinkJob
from tests.fault.spark_jobs.topic_records import create_topic, read_all, send_numbered

JOBS: Final[tuple[type[KillableJob], ...]] = (SinkJob, ArchiveJob, ArchiveTableJob, BackfillJob, ReplayJob)
"""The jobs that a seed chooses from."""

KILLS: Final = times(1, 17)  # kills for each kind of victim: driver, executor, broker


@pytest.mark.timeout(600 + 300 * KILLS)
@pytest.mark.parametrize(
    "victim", ["driver", pytest.param("executor", marks=soak_only), pytest.param("broker", marks=soak_only)]
)
def test_a_job_keeps_its_promise_when_something_is_killed(
    victim: Victim, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No matter what is killed and when, the same command, run again, completes the job as if nothing had happened."""
    seed = int(os.environ.get("TIDEMILL_KILL_SEED", random.randrange(1 << 32)))
    scene = JobScene(tmp_path, JOBS, seed=seed)
    try:
        for _ in range(KILLS):
            told = scene.kill_once(victim)
            with capsys.disabled():
                print(f"\nseed {seed}: {told}")
    finally:
        scene.close()


@soak_only
def test_an_archive_without_a_manifest_has_duplicates(tmp_path: Path) -> None:
    """
    A query that appends to files and trusts Spark's checkpoint writes a batch twice if it is killed between the files
    and the checkpoint.  The archive's check reports the duplicates, which shows that the check can fail.
    """
    broker = TidemillBroker(tmp_path / "broker")
    broker.wait_until_ready()
    command = [str(Path(__file__).with_name("checkpoint_append.py")), broker.bootstrap, "appended", str(tmp_path)]
    started: list[SparkDriver] = []
    try:
        create_topic(broker.bootstrap, "appended", 1)
        send_numbered(broker.bootstrap, "appended", 0, 300, 1)
        started.append(SparkDriver([*command, "WAIT"], tmp_path / "log"))

        def is_written() -> bool:
            assert not started[0].has_ended(), started[0].output()[-4_000:]
            return (tmp_path / "written").exists()

        wait_until(is_written, "the second batch", seconds_max=RUN_SECONDS_MAX)
        started[0].kill_all()
        started.append(SparkDriver(command, tmp_path / "log"))
        assert 0 == started[1].wait(), started[1].output()[-4_000:]
        problems = differences(
            read_all(broker.bootstrap, "appended", 1), rows_of((tmp_path / "data").glob("*.parquet"))
        )
    finally:
        for one in started:
            one.kill_all()
        broker.stop()

    assert [f"(0, {offset}) is archived 2 times" for offset in range(100, 200)] == problems
