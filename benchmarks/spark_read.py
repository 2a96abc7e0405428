"""
Benchmark how Spark reads a topic: our data source with Tidemill, against Spark's Kafka connector with Apache Kafka.

    python -m benchmarks.spark_read [--rows N] [--rounds N] [--without tidemill|kafka]

Both sides run in a PySpark that the benchmark installs in its cache.  Where Maven is not available, a confluent-kafka
loop that fills the same five columns is the yardstick instead.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from rich.console import Console

from benchmarks import report, workloads
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker import BrokerProcess, Unavailable
from benchmarks.cases import Case, Kind
from benchmarks.measure import prepare_machine
from benchmarks.spark_environment import CONNECTOR_NAME, OURS, connector_jars, run_job, spark_python
from benchmarks.tidemill_broker import TidemillBroker

ROWS, PARTITIONS, VALUE_BYTES = 5_000_000, 8, 100
TOPIC = "rows"
LOOP_NAME = "confluent-kafka loop"
TARGETS = {CONNECTOR_NAME: 3.0, LOOP_NAME: 8.0}


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
    figures = run_job(
        "read", format=format_name, bootstrap=bootstrap, topic=TOPIC, rows=rows, value_bytes=VALUE_BYTES,
        rounds=rounds, jars=list(jar_files),
    )  # fmt: skip
    return [float(rate) for rate in figures["rates"]]


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
                jar_files = connector_jars()
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
