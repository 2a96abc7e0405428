"""A user's test suite runs against the fixtures of `tidemill.testing`, in a process of its own."""

import os
import selectors
import subprocess
import sys
from pathlib import Path

from tests.integration.cli.command import ENVIRONMENT

CONFTEST = 'pytest_plugins = ["tidemill.testing"]\n'
SUITE = '''
import http.client
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

names = []


def copied(bootstrap, topic, group, values):
    """Return what a consumer gets of the values that a producer has sent."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert 0 == producer.flush(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [message.value() for message in consumer.consume(len(values), 30)]
    consumer.close()
    return found


@pytest.mark.parametrize("number", [1, 2])
def test_each_has_a_topic(tidemill_broker, number):
    topic, group = tidemill_broker.topic(), tidemill_broker.group()
    names.extend((topic, group))
    assert topic.startswith(f"test_each_has_a_topic-{number}-")
    assert [b"1"] == copied(tidemill_broker.bootstrap, topic, group, [b"1"])


def test_the_names_differ(tidemill_broker):
    assert 4 == len({*names})


def test_a_client_is_connected(tidemill_broker):
    topic, group = tidemill_broker.topic(), tidemill_broker.group()
    with tidemill_broker.connect() as mill, mill.queue(topic, group, idle="10s") as queue:
        queue.receive(wait=0)  # the group begins here
        mill.send(topic, "hello")
        assert "hello" == next(queue).text()


def test_a_topic_has_what_was_asked(tidemill_broker):
    topic = tidemill_broker.topic(3, {"retention.ms": "60000"})
    described = AdminClient({"bootstrap.servers": tidemill_broker.bootstrap}).list_topics(topic).topics[topic]
    assert 3 == len(described.partitions)
    connection = http.client.HTTPConnection(tidemill_broker.http.removeprefix("http://"))
    connection.request("GET", f"/v1/topics/{topic}")
    assert b'"retention.ms":"60000"' in connection.getresponse().read()
    connection.close()


def test_a_client_receives_what_it_sends(tidemill_broker):
    topic, group = tidemill_broker.topic(), tidemill_broker.group()
    with tidemill_broker.connect() as mill, mill.queue(topic, group, idle="10s") as queue:
        queue.receive(wait=0)
        mill.send(topic, "two shirts")
        message = next(queue)
        message.ack()
    assert "two shirts" == message.text()


def test_a_refused_topic_is_an_error(tidemill_broker):
    with pytest.raises(ValueError, match="retention.mz"):
        tidemill_broker.topic(configs={"retention.mz": "1"})


def test_a_cluster_tolerates_the_loss_of_a_broker(tidemill_cluster):
    topic, group = tidemill_cluster.topic(3), tidemill_cluster.group()
    tidemill_cluster.kill(1)
    assert [2, 3] == tidemill_cluster.running
    later = tidemill_cluster.topic()
    assert {b"1", b"2"} == {*copied(tidemill_cluster.bootstrap, topic, group, [b"1", b"2"])}  # of three partitions
    tidemill_cluster.restart(1)
    tidemill_cluster.stop(3)
    assert [b"3"] == copied(tidemill_cluster.bootstrap, later, tidemill_cluster.group(), [b"3"])


def test_the_next_test_has_three_brokers(tidemill_cluster):
    assert [1, 2, 3] == tidemill_cluster.running
'''


def ran(directory: Path, suite: str, conftest: str = CONFTEST) -> tuple[int, str]:
    """Return the exit code and the output of pytest in a directory with these files."""
    (directory / "conftest.py").write_text(conftest)
    (directory / "test_suite.py").write_text(suite)
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += ["--basetemp", str(directory / "temporary"), "test_suite.py"]
    environment = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("PYTEST_")}
    finished = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    return finished.returncode, finished.stdout + finished.stderr


def test_a_suite_uses_a_broker_and_a_cluster(tmp_path: Path) -> None:
    """
    The tests of a suite get topics and groups of their own; a cluster serves while one of its brokers is down, and each
    test begins with three.
    """
    code, shown = ran(tmp_path, SUITE)

    assert 0 == code, shown
    assert "9 passed" in shown


def test_a_failed_test_shows_the_log_of_the_broker(tmp_path: Path) -> None:
    """
    The report of a failed test has the log of its broker; a broker that was killed is named by the next error.
    """
    suite = """
import os
import selectors

def test_fails(tidemill_broker):
    tidemill_broker.processes[1].kill()
    tidemill_broker.topic()
"""
    code, shown = ran(tmp_path, suite)

    assert 1 == code, shown
    assert "the broker does not run any more; the end of its log" in shown
    assert "log of the broker (tidemill_broker)" in shown
    assert '"event": "ready"' in shown


def test_a_broker_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    """
    If a suite sets an illegal key, the error of each test is the broker's own message.
    """
    conftest = CONFTEST + (
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def tidemill_settings():\n"
        "    return {'num.partitions': 'many'}\n"
    )
    code, shown = ran(tmp_path, "def test_uses(tidemill_broker): pass\n", conftest)

    assert 1 == code, shown
    assert "the broker ended before it was ready; the end of its log" in shown
    assert "num.partitions=many" in shown


def test_a_killed_session_leaves_no_broker_behind(tmp_path: Path) -> None:
    """
    When the process of the tests is killed, its brokers stop.
    """
    suite = """
import os, signal

def test_is_killed(tidemill_broker, tmp_path_factory):
    pid = tidemill_broker.processes[1].pid
    open("pidfile", "w").write(str(pid))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    code, shown = ran(tmp_path, suite)

    assert -9 == code, shown
    pid = int((tmp_path / "pidfile").read_text())
    ended = os.pidfd_open(pid) if Path(f"/proc/{pid}").exists() else None
    if ended is not None:
        with os.fdopen(ended) as process, selectors.DefaultSelector() as selector:
            selector.register(process, selectors.EVENT_READ)
            assert selector.select(10), "the broker runs for ever"
