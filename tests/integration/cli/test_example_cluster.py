"""Brokers with the configuration files in `examples/cluster` form a cluster; the tests replace only the ports."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.cli.command import ENVIRONMENT, ROOT, tidemill
from tidemill.app.held_ports import HeldPorts
from tidemill.app.listeners import Address
from tidemill.app.settings import settings_from

NAMES = ("first", "second", "third")
PORT = re.compile(r"(127\.0\.0\.1):(\d+)")


def config(name: str) -> Path:
    return ROOT / "examples" / "cluster" / f"{name}.yaml"


def static(name: str) -> dict[str, str]:
    return dict(settings_from(file=str(config(name)), environment={}, sets=[]).static)


@contextmanager
def running(directory: Path, name: str, ports: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run the broker that a file configures, in `directory` and with each port replaced as in `ports`."""
    sets = []
    for key, text in static(name).items():
        moved = PORT.sub(lambda found: f"{found[1]}:{ports[found[2]]}", text)
        sets += ["--set", f"{key}={moved}"] if moved != text else []
    command = [sys.executable, "-m", "tidemill", "broker", "--config", str(config(name)), *sets, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=directory) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)


@pytest.fixture
def ports() -> Iterator[dict[str, str]]:
    """Reserve a free port for each port that the files name."""
    named = sorted({port for name in NAMES for text in static(name).values() for _, port in PORT.findall(text)})
    held = HeldPorts()
    yield {port: str(held.take(Address("127.0.0.1", 0)).port) for port in named}
    held.close()


def test_the_example_files_form_a_cluster(tmp_path: Path, ports: dict[str, str]) -> None:
    """
    The brokers find each other, whichever starts first.  A topic that is created with a replication factor of 2 has two
    replicas; by default, a topic has three.
    """
    with ExitStack() as stack:
        brokers = [stack.enter_context(running(tmp_path, name, ports)) for name in reversed(NAMES)]
        ready = [json.loads(process.stdout.readline()) for process in brokers if process.stdout is not None]
        bootstrap = ready[-1]["kafka"]
        made = [
            tidemill("topics", "create", "pairs", "--replication-factor", "2", bootstrap=bootstrap),
            tidemill("topics", "create", "orders", bootstrap=bootstrap),
        ]
        topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=30).topics

    assert [0, 0] == [command.exit_code for command in made], made
    assert [2, 3] == [len(topics[name].partitions[0].replicas) for name in ("pairs", "orders")]
    assert [str(tmp_path / "tidemill-cluster" / name) for name in reversed(NAMES)] == [row["data"] for row in ready]


def test_the_example_files_have_one_key_and_distinct_ports() -> None:
    """
    The three brokers form one cluster and can run on one machine at the same time.
    """
    all_settings = [settings_from(file=str(config(name)), environment={}, sets=[]) for name in NAMES]
    ports = [port for it in all_settings for port in (it.listeners[0].bind.port, it.http.port, it.peer.bind.port)]

    assert 1 == len({it.cluster_key for it in all_settings})
    assert 9 == len(set(ports))
