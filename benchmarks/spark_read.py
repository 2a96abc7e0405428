"""
Benchmark how Spark reads a topic: our data source with Tidemill, against Spark's Kafka connector with Apache Kafka.

    python -m benchmarks.spark_read [--rows N] [--rounds N] [--without tidemill|kafka]

Both sides run in a PySpark that the benchmark installs in its cache.  Where Maven is not available, a confluent-kafka
loop that fills the same five columns is the yardstick instead.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from rich.console import Console

from benchmarks import report, workloads
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker import BrokerProcess, Unavailable
from benchmarks.cases import Case, Kind
from benchmarks.maven import Artifact, cache_directory, jars
from benchmarks.measure import prepare_machine
from benchmarks.tidemill_broker import REPOSITORY, TidemillBroker

ROWS, PARTITIONS, VALUE_BYTES = 5_000_000, 8, 100
TOPIC = "rows"
# Version 4.2.0 of the token provider is not available everywhere; 4.0.0 works, because no token is used.
PROVIDER = "spark-token-provider-kafka-0-10_2.13"
CONNECTOR = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", without=(f"org.apache.spark:{PROVIDER}",)),
    Artifact("org.apache.spark", PROVIDER, "4.0.0"),
)
# The other dependencies (Scala, Hadoop, logging) are in PySpark, and two versions of a library would conflict.
CONNECTOR_JARS = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
PACKAGES = (
    "pyspark>=4.2,<4.3", "pyarrow>=18", "pandas>=2.2,<3", "numpy>=1.26", "confluent-kafka", "crc32c", "cramjam", "lz4",
    "zstandard", "Cython>=3.1",
)  # fmt: skip
JOB_SECONDS_MAX = 600
OURS = 'Tidemill, format("tidemill")'
CONNECTOR_NAME = 'Apache Kafka, format("kafka")'
LOOP_NAME = "confluent-kafka loop"
TARGETS = {CONNECTOR_NAME: 2.5, LOOP_NAME: 8.0}


def spark_python() -> Path:
    """Return the interpreter of the benchmark's own environment, which the first call creates."""
    home = cache_directory() / "spark" / "venv"
    python, wanted = home / "bin" / "python", home / "packages"
    if not wanted.exists() or wanted.read_text() != "\n".join(PACKAGES):
        venv.create(home, with_pip=True, clear=True)
        outcome = subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], capture_output=True, text=True)
        if outcome.returncode != 0:
            raise Unavailable(f"PySpark could not be installed: {outcome.stderr.strip().splitlines()[-1:]}")
        wanted.write_text("\n".join(PACKAGES))
    return python


def fill(bootstrap: str, rows: int) -> None:
    """Produce distinct values with a thousand keys, spread evenly over the partitions."""
    workloads.create_topic(bootstrap=bootstrap, topic=TOPIC, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000})
    for index in range(rows):
        value = (b"%012d " % index).ljust(VALUE_BYTES, b"~")
        producer.produce(TOPIC, value, b"key-%d" % (index % 1_000), partition=index % PARTITIONS)
        if index % 10_000 == 0:
            producer.poll(0)
            while len(producer) > workloads.QUEUED_RECORDS_MAX:
                producer.poll(0.005)
    if left := producer.flush(workloads.WAIT_SECONDS_MAX):
        raise RuntimeError(f"{left} rows were not acknowledged")


def spark_rates(format_name: str, bootstrap: str, *, rows: int, rounds: int, jar_files: Sequence[str]) -> list[float]:
    order = {
        "format": format_name, "bootstrap": bootstrap, "topic": TOPIC, "rows": rows, "value_bytes": VALUE_BYTES,
        "rounds": rounds, "jars": list(jar_files),
    }  # fmt: skip
    python = spark_python()
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "src"),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("SPARK_HOME", None)
    job = Path(__file__).with_name("spark_job.py")
    with tempfile.TemporaryDirectory(prefix="tidemill-spark-") as directory:
        outcome = subprocess.run(
            [python, str(job), json.dumps(order)],
            capture_output=True, text=True, timeout=JOB_SECONDS_MAX, env=environment, cwd=directory,
        )  # fmt: skip
    if outcome.returncode != 0:
        raise RuntimeError(f"the Spark job failed:\n{outcome.stderr[-4_000:]}")
    return [float(rate) for rate in json.loads(outcome.stdout.splitlines()[-1])["rates"]]


def loop_rate(bootstrap: str, *, rows: int) -> float:
    """Return the rows per second of a Python program that fills five columns record by record with a Kafka client."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "benchmark", "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 1, "queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_000_000,
    })  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    partitions: list[int | None] = []
    offsets: list[int | None] = []
    timestamps: list[int] = []
    started = time.perf_counter()
    while len(values) < rows:
        for message in consumer.consume(workloads.LOT, timeout=1.0):
            if message.error() is not None:
                raise KafkaException(message.error())
            keys.append(message.key())
            values.append(message.value())
            partitions.append(message.partition())
            offsets.append(message.offset())
            timestamps.append(message.timestamp()[1])
    seconds = time.perf_counter() - started
    consumer.close()
    return rows / seconds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_read")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", action="append", choices=["tidemill", "kafka"], default=[])
    parser.add_argument("--loop", action="store_true", help="also run the confluent-kafka loop")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    console = Console(width=130, soft_wrap=True)
    rates: dict[str, list[float]] = {}
    notes: list[str] = []

    def measure(name: str, broker: BrokerProcess, format_name: str, jar_files: Sequence[str], *, loop: bool) -> None:
        try:
            broker.wait_until_ready()
            fill(broker.bootstrap, options.rows)
            prepare_machine()
            rates[name] = spark_rates(
                format_name, broker.bootstrap, rows=options.rows, rounds=options.rounds, jar_files=jar_files
            )
            if loop:
                rates[LOOP_NAME] = [loop_rate(broker.bootstrap, rows=options.rows)]
        finally:
            broker.stop()
        for each in rates:
            console.print(f"{each:32} median {median(rates[each]):>12,.0f} rows/s", markup=False, highlight=False)

    try:
        spark_python()
    except Unavailable as reason:
        console.print(f"skipped: {reason}", markup=False)
        return 0
    loop_wanted = options.loop
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        if "kafka" not in options.without:
            try:
                found = sorted(jars("spark-connector", CONNECTOR).glob("*.jar"))
                jar_files = [str(jar) for jar in found if jar.name.startswith(CONNECTOR_JARS)]
                measure(CONNECTOR_NAME, ApacheKafka(Path(directory) / "kafka"), "kafka", jar_files, loop=options.loop)
                loop_wanted = False
            except Unavailable as reason:
                notes.append(f"Spark's own connector is skipped: {reason}.")
                loop_wanted = True
        if "tidemill" not in options.without:
            measure(OURS, TidemillBroker(Path(directory) / "tidemill"), "tidemill", [], loop=loop_wanted)
    yardstick = CONNECTOR_NAME if CONNECTOR_NAME in rates else LOOP_NAME
    case = Case(name="spark-read", kind=Kind.CONSUME, unit="rows/s", target=TARGETS[yardstick])
    outcome = report.Outcome(case)
    for name in (OURS, yardstick):
        for rate in rates.get(name, ()):
            outcome.add(name, {"value": rate})
    report.show([outcome], ours=OURS, yardstick=yardstick, notes=notes, console=console)
    path = report.save([outcome], ours=OURS, yardstick=yardstick, notes=notes, name="spark")
    console.print(f"saved as {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
