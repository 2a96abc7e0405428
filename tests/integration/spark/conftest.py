"""One broker and one Spark session for all tests of this folder.

`TIDEMILL_TEST_BOOTSTRAP=host:port` selects a running broker, for example Apache Kafka.  Without it, `tidemill dev` is
started on a temporary directory.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="extra 'spark' is not installed")
confluent_kafka = pytest.importorskip("confluent_kafka")

SOURCE = Path(__file__).resolve().parents[3] / "src"


class BrokerProcess:
    """A `tidemill dev` process with its own directory.  It can be killed and restarted at the same address."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.bootstrap = "127.0.0.1:0"  # until the first start: any free port
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tidemill", "dev", "--json", "--data", str(self._directory / "data")]
        with (self._directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--kafka", self.bootstrap, "--http", "127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the broker did not start: {(self._directory / 'log').read_text()[-2000:]}"
        self.bootstrap = str(json.loads(line)["kafka"])

    def stop(self) -> None:
        assert self.process.stdout is not None
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    named = os.environ.get("TIDEMILL_TEST_BOOTSTRAP")
    if named:
        yield named
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"))
    try:
        yield broker.bootstrap
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    from tidemill.spark import session

    warehouse = tmp_path_factory.mktemp("warehouse")
    # Spark's Python workers must find the same packages as this interpreter.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    configured = (
        session.builder("tests", "local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.ui.showConsoleProgress", "false")
    )
    running = configured.getOrCreate()
    running.sparkContext.setLogLevel("FATAL")
    yield running
    running.stop()


Produce = Callable[..., None]


@pytest.fixture
def make_topic(bootstrap: str) -> Callable[..., str]:
    """`make_topic(partitions=2)` creates a topic with a unique name and returns the name."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(partitions: int = 1, name: str | None = None, **configs: str) -> str:
        topic = name or f"spark-{uuid.uuid4().hex[:12]}"
        settings = {"retention.ms": "-1", **configs}  # tests write old timestamps
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        return topic

    return make


@pytest.fixture
def produce(bootstrap: str) -> Callable[..., None]:
    """`produce(topic, records, **settings)` sends records, each a dict of arguments for `Producer.produce`."""

    def send(topic: str, records: list[dict[str, object]], **settings: object) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
        failures: list[object] = []
        for record in records:
            producer.produce(topic, on_delivery=lambda error, _: error and failures.append(error), **record)
            producer.poll(0)
        assert (0, []) == (producer.flush(60), failures)

    return send
