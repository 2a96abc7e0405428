"""The short programs in `examples` work with the broker under test."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.cli.terminal import heed_interrupts
from tests.integration.clients.conftest import RunningBroker

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LINES_MAX = 30
COUNT = 10  # records that produce.py sends


def _command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]


def _run(name: str, topic: str, broker: RunningBroker) -> list[str]:
    environment = os.environ | {"TIDEMILL_BOOTSTRAP": broker.bootstrap}
    finished = subprocess.run(_command(name, topic), env=environment, capture_output=True, text=True, timeout=60)
    assert 0 == finished.returncode, finished.stderr
    return finished.stdout.splitlines()


@pytest.mark.parametrize("name", ["produce", "consume", "group", "stream_to_parquet"])
def test_an_example_is_short(name: str) -> None:
    """
    An example fits on one screen, so that a newcomer reads all of it.
    """
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("name", ["produce", "consume", "group", "stream_to_parquet"])
@pytest.mark.parametrize("arguments", [(), ("--help",)], ids=["nothing", "--help"])
def test_an_example_shows_its_usage(name: str, arguments: tuple[str, ...]) -> None:
    """
    Without its arguments, or with --help, an example shows its usage.  It does not create a topic named `--help`.
    """
    finished = subprocess.run(_command(name, *arguments), capture_output=True, text=True, timeout=60)

    assert 1 == finished.returncode and f"Usage: python examples/{name}.py TOPIC" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_the_examples_produce_consume_and_form_a_group(broker: RunningBroker) -> None:
    """
    `consume.py` prints what `produce.py` has sent, and `group.py` commits what it has handled.
    """
    topic = f"example-{uuid.uuid4().hex[:12]}"
    group = f"group of {topic}"

    acknowledged = _run("produce", topic, broker)
    consumed = _run("consume", topic, broker)
    handled = _handled_by_member(topic, group, broker)

    assert COUNT == len(acknowledged)
    assert sorted(f"order {n}" for n in range(COUNT)) == sorted(line.split(maxsplit=3)[3] for line in consumed)
    assert sorted(f"handled order {n}" for n in range(COUNT)) == sorted(handled)
    assert COUNT == _committed(topic, group, broker)


def _committed(topic: str, group: str, broker: RunningBroker) -> int:
    """Return the sum of the group's committed offsets."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    found = consumer.committed([TopicPartition(topic, partition) for partition in partitions], timeout=30)
    consumer.close()
    return sum(max(partition.offset, 0) for partition in found)


def _handled_by_member(topic: str, group: str, broker: RunningBroker) -> list[str]:
    """Run `group.py` until it has handled COUNT records, press Ctrl-C, and return all lines that it has printed."""
    with subprocess.Popen(
        _command("group", topic, group),
        env=os.environ | {"TIDEMILL_BOOTSTRAP": broker.bootstrap},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    ) as member:
        assert member.stdout is not None
        try:
            lines = [member.stdout.readline().strip() for _ in range(COUNT)]
            member.send_signal(signal.SIGINT)
            rest, _ = member.communicate(timeout=60)
        finally:
            member.kill()
    assert 0 == member.returncode
    return lines + rest.splitlines()
