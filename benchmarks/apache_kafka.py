"""
Run Apache Kafka from Maven Central as the yardstick: KRaft combined mode, default settings, 1 GB heap.

`python -m benchmarks.apache_kafka` starts one broker on a free loopback port and prints a ready line like that of
`tidemill dev`.
"""

import json
import os
import signal
import subprocess
import tempfile
import threading
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from benchmarks.broker import BrokerProcess, free_port, wait_for_port
from benchmarks.maven import Artifact, jars

VERSION = "4.3.1"
ARTIFACTS = (
    Artifact("org.apache.kafka", "kafka_2.13", VERSION),
    Artifact("org.apache.kafka", "kafka-tools", VERSION),
)
READY_SECONDS_MAX = 60.0
# The options of Kafka's own start script, so that the benchmark measures the JVM that Kafka's users run.
JVM = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "--enable-native-access=ALL-UNNAMED",
)  # fmt: skip


def new_cluster_id() -> str:
    return "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]  # "A": an id must not start with "-"


def prepare(
    directory: Path,
    *,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    cluster_id: str | None = None,
) -> list[str]:
    """Format storage in `directory`, and return the command that starts the broker on it."""
    classpath = f"{jars('kafka', ARTIFACTS)}/*"
    kafka_port, controller_port = port or free_port(), free_port()
    # One broker cannot hold three replicas of internal topics.  Kafka's own server.properties sets 1, too.
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{kafka_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{kafka_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(directory / "logs"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        **(settings or {}),
    }
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / "server.properties"
    configuration.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    if not (directory / "logs" / "meta.properties").exists():
        format_command = ["java", "-cp", classpath, "kafka.tools.StorageTool", "format"]
        format_command += ["-t", cluster_id or new_cluster_id()]
        subprocess.run([*format_command, "-c", str(configuration)], check=True, capture_output=True)
    return ["java", *JVM, "-cp", classpath, "kafka.Kafka", str(configuration)]


class ApacheKafka(BrokerProcess):
    """
    One Kafka broker on its own directory.  The directory is formatted before `started_at`, so the start-up time does
    not include it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        port = port or free_port()
        command = prepare(directory, port=port, settings=settings, cluster_id=cluster_id)
        super().__init__("Apache Kafka", command, log=directory / "broker.log", environment=os.environ)
        self.port = port
        self.bootstrap = f"127.0.0.1:{port}"

    def wait_until_ready(self) -> None:
        wait_for_port(self.port, self, seconds_max=READY_SECONDS_MAX)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tidemill-kafka-") as directory:
        settings = dict(pair.split("=", 1) for pair in os.environ.get("KAFKA_SETTINGS", "").split())
        broker = ApacheKafka(Path(directory), settings=settings)
        broker.wait_until_ready()
        print(json.dumps({"event": "ready", "kafka": broker.bootstrap, "pid": broker.pid}), flush=True)
        wanted = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: wanted.set())
        wanted.wait()
        broker.stop()


if __name__ == "__main__":
    main()
