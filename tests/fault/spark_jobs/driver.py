"""Runs a Spark job in separate processes, finds these processes, and kills them by their ids.

The driver of a Python job is two processes: the Python program, and the Java process that it starts.  With a
`local-cluster` master, each executor is another Java process.  All are in one session of the operating system, by which
they are found.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

from benchmarks.tidemill_broker import REPOSITORY
from tests.fault.cluster_processes import wait_until

RUN_SECONDS_MAX: Final = 240.0  # a run takes a few seconds, but longer on a shared machine
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
_DRIVER: Final = b"org.apache.spark.deploy.SparkSubmit"
CONFIGURATION: Final = (
    "spark.ui.enabled=false",
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
    "spark.sql.shuffle.partitions=2",
)


class SparkDriver:
    """One run of a Spark job, in processes that a test can kill."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """`arguments` follow the interpreter on the command line: a program, or `-m` and a module."""
        self._log = log
        self._log_from = log.stat().st_size if log.exists() else 0
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)]),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_DIRS": str(log.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(log.parent / "work"),
        }
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> int:
        """Return the exit code of the program.  Raise AssertionError if it does not end."""
        try:
            return self._process.wait(RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"the job has not ended after {RUN_SECONDS_MAX:.0f} s: {self.output()[-4_000:]}"
            ) from None

    def output(self) -> str:
        """Return everything that the processes of this run have written to the log file."""
        return self._log.read_bytes()[self._log_from :].decode(errors="replace")

    def executors(self) -> list[int]:
        """Return the process ids of the executors, in ascending order."""
        return [pid for pid, command in self._processes() if _EXECUTOR in command]

    def kill_python(self) -> None:
        """Kill only the Python program.  The Java process notices this later, and may still work for a moment."""
        self._process.kill()
        self._process.wait()

    def kill_java(self) -> None:
        """Kill only the Java process of the driver, after which the Python program fails."""
        for pid, command in self._processes():
            if _DRIVER in command and _EXECUTOR not in command:
                kill(pid)

    def kill_all(self) -> None:
        """Kill all processes of the run, and wait until they are gone."""
        self._process.kill()
        self._process.wait()

        def are_gone() -> bool:
            left = self._processes()
            for pid, _ in left:
                kill(pid)
            return not left

        wait_until(are_gone, "the end of killed processes")

    def _processes(self) -> list[tuple[int, bytes]]:
        """Return the process id and the command line of each process of this run."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                # The fields after the command in parentheses: state, parent, process group, session.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process has ended since its directory was listed
            if int(fields[3]) == self._process.pid and fields[0] != "Z":
                found.append((int(entry.name), command))
        return sorted(found)


def kill(pid: int) -> None:
    """Kill a process, unless it has ended by itself."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def pause(seconds: float) -> None:
    """Wait for a random time after an observed step, so that kills hit all parts of a step."""
    time.sleep(seconds)
