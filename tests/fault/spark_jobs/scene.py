"""A broker and jobs that run against it, while a seed decides what is killed and when."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from tests.fault.cluster_processes import wait_until
from tests.fault.kill_nine import KillableBroker, start_tidemill
from tests.fault.spark_jobs.driver import CONFIGURATION, RUN_SECONDS_MAX, SparkDriver, kill, pause
from tests.fault.spark_jobs.job import KillableJob

Victim = Literal["driver", "executor", "broker"]

# Runs that a job may take after a kill: one that fails because of the kill, one that succeeds, and two more for slow
# machines.
RUNS_MAX: Final = 4
MASTERS: Final[dict[Victim, str]] = {
    "driver": "local[2]",
    "executor": "local-cluster[2,1,1024]",  # a master whose executors are separate processes
    "broker": "local[2]",
}
_STEPS_MAX: Final = 3  # a kill comes at most this many steps after the start of a run
_DELAY_SECONDS_MAX: Final = 0.4  # longest time from the observed step to the kill: about a step's length


class JobScene:
    """One broker on one directory and port, and an instance of each job that was chosen at random."""

    def __init__(self, directory: Path, jobs: Sequence[type[KillableJob]], *, seed: int) -> None:
        self._directory = directory
        self._random = random.Random(seed)
        self._jobs = tuple(jobs)
        self._made: dict[str, KillableJob] = {}
        self._running: SparkDriver | None = None
        self._broker: KillableBroker = start_tidemill(directory / "broker", 0)
        self._broker.wait_until_ready()
        self.bootstrap = self._broker.bootstrap

    def close(self) -> None:
        """End all processes."""
        if self._running is not None:
            self._running.kill_all()
        self._broker.stop()

    def kill_once(self, victim: Victim) -> str:
        """
        Choose a job, run it, kill the victim at a random moment, run the job again until it succeeds, and check it.

        Return a line about what happened.
        """
        job = self._draw_job()
        job.prepare()
        driver = self._start(job, MASTERS[victim])
        when = self._wait_for_drawn_moment(job, driver)
        how = self._kill(victim, driver)
        runs = 1 + self._run_to_the_end(job, driver, MASTERS[victim])
        return f"{job.name}: {how} after {when}; {runs} runs; {job.check()}"

    def _draw_job(self) -> KillableJob:
        chosen = self._random.choice(self._jobs)
        if chosen.name not in self._made:
            directory = self._directory / chosen.name
            directory.mkdir()
            self._made[chosen.name] = chosen(self.bootstrap, directory)
        return self._made[chosen.name]

    def _start(self, job: KillableJob, master: str) -> SparkDriver:
        self._running = SparkDriver(job.arguments(master), self._directory / f"{job.name}.log")
        return self._running

    def _wait_for_drawn_moment(self, job: KillableJob, driver: SparkDriver) -> str:
        before = job.moments()
        moment = self._random.choice(sorted(before))
        growth = self._random.randint(1, _STEPS_MAX)
        delay = self._random.uniform(0.0, _DELAY_SECONDS_MAX)

        def has_come() -> bool:
            assert not driver.has_ended(), (
                f"the job has ended before {moment} grew by {growth}: {driver.output()[-4_000:]}"
            )
            return job.moments()[moment] >= before[moment] + growth

        wait_until(has_come, f"{moment} of {job.name}", seconds_max=RUN_SECONDS_MAX)
        pause(delay)
        return f"{growth} {moment} and {delay:.2f} s"

    def _kill(self, victim: Victim, driver: SparkDriver) -> str:
        match victim:
            case "driver":
                how = self._random.choice(("python", "java", "all"))
                {"python": driver.kill_python, "java": driver.kill_java, "all": driver.kill_all}[how]()
                return f"driver ({how}) killed"
            case "executor":
                executors = driver.executors()
                assert executors, f"there is no executor: {driver.output()[-4_000:]}"
                kill(self._random.choice(executors))
                return "executor killed"
            case "broker":
                self._broker.kill()
                pause(self._random.uniform(0.0, 1.0))
                self._broker = start_tidemill(self._directory / "broker", int(self.bootstrap.rpartition(":")[2]))
                self._broker.wait_until_ready()
                return "broker killed"

    def _run_to_the_end(self, job: KillableJob, driver: SparkDriver, master: str) -> int:
        """
        Run the job until it succeeds, and return how many more runs that took.

        A run may begin while processes of a killed one still exist, because a user would not wait for them either.
        """
        started = [driver]
        while True:
            code = started[-1].wait()
            if code == 0:
                break
            assert len(started) <= RUNS_MAX, f"the job fails again and again: {started[-1].output()[-6_000:]}"
            started.append(self._start(job, master))
        for one in started:
            one.kill_all()
        self._running = None
        return len(started) - 1


def session_arguments(master: str) -> list[str]:
    """Return the options of `tidemill pipeline run` for the Spark session."""
    return ["--master", master, *(word for setting in CONFIGURATION for word in ("--conf", setting))]
