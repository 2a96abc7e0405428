"""`tidemill cluster status` for a real cluster, one broker of which is killed."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.integration.cli.command import ENVIRONMENT, tidemill
from tests.integration.cli.dev_cluster import running_cluster

SECONDS_MAX = 30.0


def test_the_status_shows_brokers_that_are_down(tmp_path: Path, dev_broker: dict[str, Any]) -> None:
    """
    The command shows a killed broker as down and the new leaders of its shards.  It prints JSON with --json, and
    tab-separated columns to a pipe.  `topics describe` shows that the killed broker's replicas are not in sync.  `top`
    shows the remaining brokers, and reads nothing from a broker of another cluster.
    """
    with running_cluster(tmp_path / "data", 3) as cluster:
        first, victim, _ = cluster.brokers
        made = tidemill(
            "topics", "create", "t", "--partitions", "6", "--replication-factor", "3", bootstrap=first["kafka"]
        )
        whole = json.loads(tidemill("cluster", "status", "--http", first["http"], "--json").out)
        os.kill(victim["pid"], signal.SIGKILL)
        deadline = time.monotonic() + SECONDS_MAX
        while True:  # until other leaders have been elected and know that the broker is dead
            hurt = json.loads(tidemill("cluster", "status", "--http", first["http"], "--json").out)
            described = json.loads(tidemill("topics", "describe", "t", "--json", bootstrap=first["kafka"]).out)
            has_leaders = all(row["leader"] not in (None, 2) for row in hurt["shards"])
            in_sync = {number for partition in described["partitions"] for number in partition["in_sync"]}
            if (has_leaders and 2 not in in_sync) or time.monotonic() > deadline:
                break
        table = tidemill("cluster", "status", "--http", first["http"]).out
        screen = on_a_terminal(first["http"])
        top, other = [
            json.loads(tidemill("top", "--interval", "0.2", "--http", http, "--json", bootstrap=first["kafka"]).out)
            for http in (first["http"], dev_broker["http"])
        ]

    assert 0 == made.exit_code, made.err
    assert ["up", "up", "up"] == [row["status"] for row in whole["brokers"]]
    assert {"ok"} == {row["state"] for row in whole["shards"]}
    assert ["up", "down", "up"] == [row["status"] for row in hurt["brokers"]]
    assert {"degraded"} == {row["state"] for row in hurt["shards"]}
    assert 4 == len(hurt["shards"])
    assert [[1, 2, 3]] * 6 == [sorted(partition["replicas"]) for partition in described["partitions"]]
    assert [[1, 3]] * 6 == [sorted(partition["in_sync"]) for partition in described["partitions"]]
    assert "2\tdown\t" in table and "\tdegraded\t" in table
    assert 2 <= screen.count("Cluster ") and "degraded" in screen
    assert [("up", True), ("down", False), ("up", True)] == [
        (row["status"], row["requests_per_s"] is not None) for row in top["brokers"]
    ]
    assert any("another cluster" in note for note in other["notes"])
    assert {None} == {row["requests_per_s"] for row in other["brokers"]}
    assert [("t", 6, 0, 0.0)] == [
        (row["topic"], row["partitions"], row["leaderless"], row["bytes_in_per_s"]) for row in top["topics"]
    ]


def heed_interrupts() -> None:
    """Restore the default handler: a suite that runs in the background ignores SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def on_a_terminal(http: str) -> str:
    """Run the command on a terminal until it has updated the screen once; return its output.  Ctrl-C must end the
    command with code 0.
    """
    controlling, terminal = pty.openpty()
    command = [sys.executable, "-m", "tidemill", "cluster", "status"]
    environment = ENVIRONMENT | {"TIDEMILL_HTTP": http, "COLUMNS": "160", "LINES": "50", "TERM": "xterm"}
    with subprocess.Popen(
        command, stdout=terminal, stderr=subprocess.PIPE, env=environment, preexec_fn=heed_interrupts
    ) as process:
        os.close(terminal)
        drawn = b""
        while drawn.count(b"Cluster ") < 2:
            drawn += os.read(controlling, 65_536)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS_MAX)
    os.close(controlling)
    assert (0, b"") == (process.returncode, errors)
    return drawn.decode(errors="replace")  # the last character may be incomplete
