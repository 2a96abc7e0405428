"""A task that starts while the broker is down waits for the broker, because the driver has reached the cluster."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from benchmarks.broker import free_port
from benchmarks.tidemill_broker import TidemillBroker

FIRST_CONTACT_MS = 1_500  # the driver must connect within this time even on a loaded machine
ROWS = 1_000


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def bootstrap(broker: list[TidemillBroker]) -> str:
    """Return the address of a broker that only this file uses, because its tests stop the broker."""
    return broker[0].bootstrap


@pytest.fixture
def broker(port: int, tmp_path: Path) -> Iterator[list[TidemillBroker]]:
    """Yield a list with the running broker, which a test may replace."""
    running = [TidemillBroker(tmp_path / "broker", port=port)]
    running[0].wait_until_ready()
    yield running
    running[0].stop()


def refuse(port: int, seconds: float) -> None:
    """Accept and close connections, for `seconds` after the first one."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(60)
        listener.accept()[0].close()
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            listener.settimeout(left)
            try:
                listener.accept()[0].close()
            except TimeoutError:
                return


def test_a_task_that_starts_while_the_broker_is_away_waits_for_it(spark, make_topic, broker, port, tmp_path):
    """The broker stops after the driver has planned the write, and is back only after the time limit for a first
    contact.
    """
    topic = make_topic(partitions=2)
    started, stopped = tmp_path / "started", tmp_path / "stopped"

    def when_stopped(batches):
        started.touch()
        while not stopped.exists():
            time.sleep(0.01)
        yield from batches

    def restart() -> None:
        while not started.exists():
            time.sleep(0.01)
        broker[0].stop()
        stopped.touch()
        refuse(port, 2 * FIRST_CONTACT_MS / 1_000)
        broker[0] = TidemillBroker(tmp_path / "broker", port=port)
        broker[0].wait_until_ready()

    values = spark.range(0, ROWS, 1, 2).select(F.col("id").cast("string").alias("value"))
    options = {"kafka.bootstrap.servers": broker[0].bootstrap, "topic": topic}
    restarting = threading.Thread(target=restart, daemon=True)
    restarting.start()

    writer = values.mapInArrow(when_stopped, values.schema).write.format("tidemill").mode("append")
    writer.option("kafka.socket.connection.setup.timeout.ms", FIRST_CONTACT_MS).options(**options).save()

    restarting.join(60)
    read = spark.read.format("tidemill").options(**options, subscribe=topic).load()
    assert ROWS == read.select("value").distinct().count() == read.count()
