"""
Benchmark the micro-batches of a query from topic to topic, beside Spark's Kafka connector with Apache Kafka.

    python -m benchmarks.spark_stream [--batches N] [--rounds N] [--without tidemill|kafka]

The figures are the median duration of a micro-batch, and how much memory Spark's Python workers gain from the first
fifth of the micro-batches to the last.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import report, workloads
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker import BrokerProcess, Unavailable
from benchmarks.cases import Case, Kind
from benchmarks.measure import prepare_machine
from benchmarks.spark_environment import CONNECTOR_NAME, OURS, connector_jars, run_job, spark_python
from benchmarks.tidemill_broker import TidemillBroker
from tidemill.spark import session

BATCHES, PARTITIONS, VALUE_BYTES = 500, 2, 100
DURATION = Case(name="spark-stream", kind=Kind.LATENCY, unit="ms", target=2.0, higher_is_better=False)
MEMORY = Case(
    name="spark-worker-memory", kind=Kind.MEMORY_AFTER, unit="MB", target=None, bound=20.0, higher_is_better=False
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_stream")
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", action="append", choices=["tidemill", "kafka"], default=[])
    options = parser.parse_args()
    console = Console(width=130, soft_wrap=True)
    durations, memory = report.Outcome(DURATION), report.Outcome(MEMORY)
    notes: list[str] = []

    def measure(name: str, broker: BrokerProcess, format_name: str, jar_files: Sequence[str]) -> None:
        try:
            broker.wait_until_ready()
            for number in range(options.rounds):
                topics = {"source": f"source-{number}", "sink": f"sink-{number}"}
                for topic in topics.values():
                    workloads.create_topic(bootstrap=broker.bootstrap, topic=topic, partitions=PARTITIONS)
                prepare_machine()
                figures = run_job(
                    "stream", format=format_name, bootstrap=broker.bootstrap, **topics, batches=options.batches,
                    value_bytes=VALUE_BYTES, jars=list(jar_files),
                    settings=session.DEFAULTS if format_name == "tidemill" else {},
                )  # fmt: skip
                durations.add(name, {"value": figures["p50"], "p99": figures["p99"]})
                if format_name == "tidemill":  # the other side has no Python workers
                    growth = figures["late_mb"] - figures["early_mb"]
                    memory.add(name, {"value": growth, "early": figures["early_mb"], "late": figures["late_mb"]})
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
    outcomes = [durations, memory]
    report.show(outcomes, ours=OURS, yardstick=CONNECTOR_NAME, notes=notes, console=console)
    path = report.save(outcomes, ours=OURS, yardstick=CONNECTOR_NAME, notes=notes, name="spark-stream")
    console.print(f"saved as {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
