"""
Benchmark how Spark writes to a topic: our data source with Tidemill, against Spark's Kafka connector with Apache Kafka.

    python -m benchmarks.spark_write [--rows N] [--rounds N] [--without tidemill|kafka]

Both sides write rows that are in Spark's memory, and wait for all acknowledgements.  Ours has the session settings of
`tidemill.spark.session`.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from rich.console import Console

from benchmarks import report, workloads
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker import BrokerProcess, Unavailable
from benchmarks.cases import Case, Kind
from benchmarks.measure import prepare_machine
from benchmarks.spark_environment import CONNECTOR_NAME, OURS, connector_jars, run_job, spark_python
from benchmarks.tidemill_broker import TidemillBroker
from tidemill.spark import session

ROWS, PARTITIONS, VALUE_BYTES = 3_000_000, 8, 100
PLAIN = Case(name="spark-write", kind=Kind.PRODUCE, unit="rows/s", target=1.5)
HEADERS = Case(name="spark-write-headers", kind=Kind.PRODUCE, unit="rows/s", target=None)


def written(bootstrap: str, topic: str) -> int:
    """Return the number of records in the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark"})
    bounds = [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30) for number in range(PARTITIONS)]
    consumer.close()
    return sum(end - start for start, end in bounds)


def rates(
    broker: BrokerProcess, case: Case, format_name: str, *, rows: int, rounds: int, jar_files: Sequence[str]
) -> list[float]:
    """Return the rows per second of each round.  Raise RuntimeError if the topic has another number of records."""
    topic = case.name
    workloads.create_topic(bootstrap=broker.bootstrap, topic=topic, partitions=PARTITIONS)
    prepare_machine()
    figures = run_job(
        "write", format=format_name, bootstrap=broker.bootstrap, topic=topic, rows=rows, value_bytes=VALUE_BYTES,
        rounds=rounds, has_headers=case is HEADERS, jars=list(jar_files),
        settings=session.DEFAULTS if format_name == "tidemill" else {},
    )  # fmt: skip
    if (found := written(broker.bootstrap, topic)) != rows * (rounds + 1):
        raise RuntimeError(f"topic {topic} has {found} records and not {rows * (rounds + 1)}")
    return [float(rate) for rate in figures["rates"]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_write")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", action="append", choices=["tidemill", "kafka"], default=[])
    return parser.parse_args()


def main() -> int:
    options = arguments()
    console = Console(width=130, soft_wrap=True)
    outcomes = [report.Outcome(PLAIN), report.Outcome(HEADERS)]
    notes: list[str] = []

    def measure(name: str, broker: BrokerProcess, format_name: str, jar_files: Sequence[str]) -> None:
        try:
            broker.wait_until_ready()
            for outcome in outcomes:
                for rate in rates(
                    broker, outcome.case, format_name, rows=options.rows, rounds=options.rounds, jar_files=jar_files
                ):
                    outcome.add(name, {"value": rate})
        finally:
            broker.stop()

    try:
        spark_python()
    except Unavailable as reason:
        console.print(f"skipped: {reason}", markup=False)
        return 0
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        if "kafka" not in options.without:
            try:
                jar_files = connector_jars()
                measure(CONNECTOR_NAME, ApacheKafka(Path(directory) / "kafka"), "kafka", jar_files)
            except Unavailable as reason:
                notes.append(f"Spark's own connector is skipped: {reason}.")
        if "tidemill" not in options.without:
            measure(OURS, TidemillBroker(Path(directory) / "tidemill"), "tidemill", [])
    report.show(outcomes, ours=OURS, yardstick=CONNECTOR_NAME, notes=notes, console=console)
    path = report.save(outcomes, ours=OURS, yardstick=CONNECTOR_NAME, notes=notes, name="spark-write")
    console.print(f"saved as {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
