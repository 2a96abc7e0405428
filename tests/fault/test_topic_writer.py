"""When brokers are killed while Arrow rows are written, no row is lost, duplicated or reordered."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.fault.cluster_processes import ClusterProcesses
from tests.integration.clients.test_topic_writer import read
from tidemill.columnar import producer_pool, sink_options, topic_writer
from tidemill.columnar.topic_writer import TopicWriter

pa = pytest.importorskip("pyarrow", reason="extra 'spark' is not installed")

ROWS = 16_000
PARTITIONS = 3


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the writer send after every few rows, so that it sends before, during and after the kill."""
    monkeypatch.setattr(topic_writer, "_GROUP_BYTES", 50_000)
    yield
    producer_pool.close_all()


def parts() -> Iterator[object]:
    """Yield rows whose values are consecutive numbers within each partition, 1,000 rows at a time."""
    for start in range(0, ROWS, 1_000):
        numbers = range(start, start + 1_000)
        yield pa.record_batch({"value": [f"{n:050}" for n in numbers], "partition": [n % PARTITIONS for n in numbers]})


def write(bootstrap: str, topic: str, when_half_is_sent: Callable[[], None]) -> None:
    options = sink_options.parse(
        {
            "kafka.bootstrap.servers": bootstrap,
            "topic": topic,
            # Many small requests, so that several are in flight when the broker is killed.
            "kafka.batch.size": "4000",
            "kafka.max.request.size": "4000",
        }
    )
    writer: TopicWriter | None = None
    for index, rows in enumerate(parts()):
        if writer is None:
            writer = TopicWriter(options, rows.schema)
        writer.write(rows)
        if index == ROWS // 2_000:
            assert not writer._pooled.producer.is_reusable, "no batch is in flight"
            when_half_is_sent()
    assert writer is not None
    with writer:
        assert ROWS == writer.flush().records


def check(bootstrap: str, topic: str) -> None:
    for number, messages in read(bootstrap, topic, PARTITIONS, ROWS).items():
        assert list(range(number, ROWS, PARTITIONS)) == [int(message.value()) for message in messages]


def test_the_leader_of_half_the_data_is_killed(cluster: ClusterProcesses) -> None:
    """Batches in flight to a leader that is killed are sent again to the next leader, which recognizes those already
    stored.
    """
    cluster.create_topic("killed-writer", PARTITIONS)
    victim = cluster.leaders("killed-writer")[0]

    write(cluster.bootstrap, "killed-writer", lambda: cluster.kill(victim))
    cluster.recover()

    check(cluster.bootstrap, "killed-writer")


def test_the_only_broker_is_killed_and_restarted(tmp_path: Path) -> None:
    """The writer waits until the broker is back, and the restarted broker recognizes the batches that it has already
    stored.
    """
    with ClusterProcesses(tmp_path, numbers=(1,)) as lone:
        lone.start(1)
        admin = AdminClient({"bootstrap.servers": lone.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("restarted-writer", PARTITIONS, 1)])["restarted-writer"].result(30)

        def restart() -> None:
            lone.kill(1)
            lone.start(1)

        write(lone.bootstrap, "restarted-writer", restart)
        check(lone.bootstrap, "restarted-writer")
