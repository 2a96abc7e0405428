"""Runs `tidemill dev --brokers N` as a process and reads its ready line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.cli.command import ENVIRONMENT

READY_S_MAX = 90


@dataclass(frozen=True, slots=True)
class Cluster:
    process: subprocess.Popen[str]
    ready: dict[str, Any]
    stderr: Path

    @property
    def brokers(self) -> list[dict[str, Any]]:
        brokers: list[dict[str, Any]] = self.ready["brokers"]
        return brokers

    @property
    def bootstrap(self) -> str:
        return ",".join(broker["kafka"] for broker in self.brokers)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stderr.read_text().splitlines()]

    def warnings(self) -> list[dict[str, Any]]:
        """
        Return the events whose level is not info, except those about a machine that is busy, lacks a compiler, or has a
        disk that is more than 80 % full.
        """
        of_the_machine = ("event loop stalled", "compiled extension not found", "clean stop timed out")
        events = [event for event in self.events() if not event["event"].startswith(of_the_machine)]
        warnings = [event for event in events if event["level"] != "info"]
        return [event for event in warnings if not event.get("why", "").startswith("the disk of broker")]

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=30)


@contextmanager
def running_cluster(directory: Path, count: int, *more: str) -> Iterator[Cluster]:
    """Start a cluster of `count` brokers, yield it when it is ready, and stop all its brokers at the end."""
    options = ("--data", str(directory), "--brokers", str(count), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0")
    command = [sys.executable, "-m", "tidemill", "dev", *options, "--json", *more]
    stderr = directory.parent / f"{directory.name}.stderr"
    with (
        stderr.open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRONMENT) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, stderr.read_text()
            yield Cluster(process, json.loads(line), stderr)
        finally:
            process.terminate()
            process.wait(timeout=30)


@contextmanager
def started_again(broker: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """Restart a broker with its command from the ready line, and yield the process, whose id `broker` gets, when it is
    ready.
    """
    with subprocess.Popen(
        broker["command"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT, cwd="/"
    ) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["kafka"] == broker["kafka"]
            broker["pid"] = process.pid
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)
