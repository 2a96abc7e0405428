"""`tidemill cluster status` for a real cluster, one broker of which is killed."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.integration.cli.command import tidemill
from tests.integration.cli.dev_cluster import running_cluster
from tests.integration.cli.terminal import live_view

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
        screen = live_view("cluster", "status", redraws=2, TIDEMILL_HTTP=first["http"])
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
