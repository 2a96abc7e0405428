"""
The broker under test, and the matrix of results printed at the end.

By default `tidemill` is started as a separate process.  `TIDEMILL_TEST_BOOTSTRAP=host:port` selects a running broker
instead, for example Apache Kafka (see `python -m benchmarks.apache_kafka`), and `TIDEMILL_TEST_BROKER_PID` is its
process id, for cases that suspend it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.broker import free_port
from benchmarks.clusters import BROKERS, three_tidemills
from benchmarks.tidemill_broker import TidemillBroker
from tests.integration.clients.leader_mover import LeaderMover

# Short delays, so that the suite does not wait longer than necessary, and metrics for all its topics and groups.
SETTINGS: dict[str, str | int] = {
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.check.interval.ms": 200,
    "tidemill.metrics.group.lags.max": 10_000,
    "tidemill.metrics.topics.max": 10_000,
}
OFFSETS_PARTITIONS = 3
CLUSTER_SETTINGS: dict[str, str | int] = {
    **SETTINGS,
    "default.replication.factor": 3,
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
}
MOVE_SECONDS = 2.0
OUTCOMES = pytest.StashKey[dict[str, dict[str, str]]]()
SIGNS = {"passed": "pass", "failed": "FAIL", "skipped": "skip"}


@dataclass(frozen=True, slots=True)
class RunningBroker:
    bootstrap: str
    pid: int | None
    http: str | None = None


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    if bootstrap := os.environ.get("TIDEMILL_TEST_BOOTSTRAP"):
        pid = os.environ.get("TIDEMILL_TEST_BROKER_PID")
        yield RunningBroker(bootstrap, int(pid) if pid else None)
        return
    directory: Path = tmp_path_factory.mktemp("broker")
    process = TidemillBroker(directory, settings=SETTINGS)
    try:
        process.wait_until_ready()
        yield RunningBroker(process.bootstrap, process.broker_pid, process.http)
    finally:
        process.stop()


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """Three brokers; the leaders of all shards move every `MOVE_SECONDS`."""

    bootstrap: str
    mover: LeaderMover


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    peers = [free_port() for _ in range(BROKERS)]
    processes = three_tidemills(tmp_path_factory.mktemp("cluster"), more=CLUSTER_SETTINGS, peers=peers)
    try:
        with LeaderMover([f"127.0.0.1:{port}" for port in peers], MOVE_SECONDS) as mover:
            yield RunningCluster(processes.bootstrap, mover)
        assert mover.moved or mover.rounds < 2, f"{mover.rounds} rounds moved no leader"
    finally:
        processes.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "case" in callspec.params and (report.when == "call" or not report.passed):
        moves = " (leaders move)" if "cluster" in getattr(item, "fixturenames", ()) else ""
        name = callspec.params["case"].__name__ + moves
        row = item.config.stash.setdefault(OUTCOMES, {}).setdefault(name, {})
        reason = f" ({report.longrepr[2].removeprefix('Skipped: ')})" if isinstance(report.longrepr, tuple) else ""
        row[callspec.params.get("client") or callspec.params["moving_client"]] = SIGNS[report.outcome] + reason
    return report  # type: ignore[return-value]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = config.stash.get(OUTCOMES, {})
    if not outcomes:
        return
    config.stash[OUTCOMES] = {}  # the hook in `conformance` prints the same stash, and must not repeat it
    clients = sorted({client for row in outcomes.values() for client in row})
    width = max(map(len, outcomes))
    terminalreporter.section("client contract")
    terminalreporter.line(f"{'case':{width}}  {'  '.join(f'{client:15}' for client in clients)}".rstrip())
    reasons = []
    for name, row in sorted(outcomes.items()):
        cells = [row.get(client, "-") for client in clients]
        terminalreporter.line(f"{name:{width}}  {'  '.join(f'{cell.split()[0]:15}' for cell in cells)}".rstrip())
        reasons += [f"skip {client} {name}: {cell[5:]}" for client, cell in row.items() if cell.startswith("skip")]
    for reason in reasons:
        terminalreporter.line(reason)
