"""The plan that `tidemill cluster restart --plan` prints, read and followed line by line, as an orchestrator does."""

import re
import shlex
from typing import NamedTuple

from tests.fault.cluster_processes import ClusterProcesses
from tests.integration.cli.command import Finished, tidemill

HEADING = re.compile(r"# broker (\d+)")
PLACE = re.compile(r": restart broker (\d+)")


class PlannedRestart(NamedTuple):
    """What the plan says about one broker."""

    broker_id: int
    before: list[list[str]]  # the arguments of each command that comes before its restart
    after: list[list[str]]


def ask(cluster: ClusterProcesses, *arguments: str) -> Finished:
    """Run a `tidemill cluster` command, which asks the first broker that answers."""
    return tidemill("cluster", *arguments, "--http", ",".join(f"127.0.0.1:{it}" for it in cluster.http_ports.values()))


def run_commands(commands: list[list[str]]) -> None:
    """Run commands of the plan as they are printed; each must succeed."""
    for command in commands:
        finished = tidemill(*command)
        assert finished.exit_code == 0, f"{shlex.join(command)}: {finished.err}"


def read_plan(text: str) -> list[PlannedRestart]:
    """Return the restarts that a printed plan consists of.  Every line must be understood."""
    restarts: list[PlannedRestart] = []
    commands: list[list[str]] = []
    for line in text.splitlines():
        if heading := HEADING.fullmatch(line):
            commands = []
            restarts.append(PlannedRestart(int(heading[1]), commands, []))
        elif place := PLACE.fullmatch(line):
            assert restarts and int(place[1]) == restarts[-1].broker_id, f"out of place: {line}"
            commands = restarts[-1].after
        else:
            program, *arguments = shlex.split(line)
            assert program == "tidemill" and restarts, f"no command of the plan: {line}"
            commands.append(arguments)
    return restarts
