"""100,000 jobs of a share group, processed by Spark while executors are killed: each is done or becomes a dead letter.

TIDEMILL_KILL_SEED repeats an earlier run's choices.  With TIDEMILL_FAULTS=all there are 20 kills instead of two, and
five of drivers.
"""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks.tidemill_broker import TidemillBroker
from tests.fault.cluster_processes import wait_until
from tests.fault.extent import IS_WHOLE, times
from tests.fault.share_groups.share_lag import lag_of

pytest.importorskip("pyspark", reason="extra 'spark' is not installed")

from tests.fault.spark_jobs.driver import RUN_SECONDS_MAX, SparkDriver, kill, pause
from tests.fault.spark_jobs.queue_work import is_rejected
from tests.fault.spark_jobs.topic_records import create_topic, number_of, read_all, send_numbered

JOBS: Final = 100_000
PARTITIONS: Final = 8
KILLS: Final = times(2, 20)
ROUNDS: Final = times(1, 5)  # of JOBS jobs each
RUNS_MAX: Final = 3 + KILLS + ROUNDS  # a kill may fail the query, which is then started again
LOOK_SECONDS: Final = 0.25  # between two looks at the lag, which cost the broker time that the jobs need
GROUP: Final = "workers"
LETTERS: Final = "dlq.workers"
CONFIGURATION: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "10",  # more than the kills of drivers, each of which ends a delivery
    "errors.deadletterqueue.topic.name": LETTERS,
    "share.partition.max.record.locks": "4000",  # 32,000 jobs in a micro-batch, so that there are at least four
}


@pytest.mark.timeout(300 + 60 * KILLS + 120 * ROUNDS)
def test_every_job_is_done_or_becomes_a_dead_letter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("TIDEMILL_KILL_SEED", random.randrange(1 << 32)))
    chance = random.Random(seed)
    broker = TidemillBroker(tmp_path / "broker")
    broker.wait_until_ready()
    work = _Work(broker.bootstrap, tmp_path)
    try:
        for _ in range(ROUNDS):
            work.send(JOBS)
            for _ in range(KILLS // ROUNDS):
                work.kill_an_executor(chance)
            if IS_WHOLE:
                work.kill_the_driver()
            work.run_to_the_end()
        told = work.check()
    finally:
        work.close()
        broker.stop()
    with capsys.disabled():
        print(f"\nseed {seed}: {told}")


class _Work:
    """The topics, the group and the runs of the query."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._sent = 0
        self._kills = 0
        self._runs: list[SparkDriver] = []
        create_topic(bootstrap, "jobs", PARTITIONS)
        create_topic(bootstrap, "done", PARTITIONS)
        create_topic(bootstrap, LETTERS, PARTITIONS, {"errors.deadletterqueue.group.enable": "true"})
        entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in CONFIGURATION.items()]
        group = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.incremental_alter_configs([group])[group].result(30)

    def send(self, count: int) -> None:
        send_numbered(self._bootstrap, "jobs", self._sent, count, PARTITIONS)
        self._sent += count

    def kill_an_executor(self, chance: random.Random) -> None:
        """Kill one soon after some more jobs are finished, unless all are."""
        before = self._left()
        wait_until(lambda: self._left() < before or not before, "progress", seconds_max=RUN_SECONDS_MAX)
        pause(chance.uniform(0.0, 1.5))
        if executors := self._runs[-1].executors():
            kill(chance.choice(executors))
            self._kills += 1

    def kill_the_driver(self) -> None:
        """The locks of the driver end with time, and the next run continues from the checkpoint."""
        self._runs[-1].kill_all()

    def run_to_the_end(self) -> None:
        wait_until(lambda: not self._left(), "the end of the jobs", seconds_max=2 * RUN_SECONDS_MAX)

    def check(self) -> str:
        found = Counter(number_of(one) for one in read_all(self._bootstrap, "done", PARTITIONS))
        rejected = {number for number in range(self._sent) if is_rejected(number)}
        assert set(range(self._sent)) - rejected == found.keys()
        letters = Counter(number_of(one) for one in read_all(self._bootstrap, LETTERS, PARTITIONS))
        assert dict.fromkeys(rejected, 1) == letters, "each rejected job is one dead letter"
        assert self._kills, "the jobs were finished before an executor could be killed"
        again = found.total() - len(found)
        return (
            f"{self._sent} jobs, {len(rejected)} of them dead letters; {self._kills} executors killed, "
            f"{len(self._runs)} runs, {again} jobs done twice"
        )

    def close(self) -> None:
        for run in self._runs:
            run.kill_all()

    def _left(self) -> int:
        """Return how many jobs are not finished, after a look whether the query runs."""
        if not self._runs or self._runs[-1].has_ended():
            assert len(self._runs) < RUNS_MAX, f"the query fails again and again: {self._runs[-1].output()[-6_000:]}"
            self._start()
        pause(LOOK_SECONDS)
        lag = lag_of(self._bootstrap, GROUP)
        return self._sent if lag is None else lag

    def _start(self) -> None:
        arguments = ["jobs", "done", GROUP, str(self._directory / "checkpoint")]
        program = str(Path(__file__).with_name("queue_work.py"))
        master = "local-cluster[2,1,1024]"
        self._runs.append(SparkDriver([program, master, self._bootstrap, *arguments], self._directory / "queue.log"))
