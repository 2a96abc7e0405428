"""
Benchmark `tidemill.arrow.read` against a confluent-kafka loop that fills an Arrow table of the same columns.

    python -m benchmarks.arrow_read [--rows N] [--rounds N]

Both sides read the same topic of one broker, in turns; every second round begins with the other side.  The table has
the columns key, value, partition, offset and timestamp.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaException, TopicPartition
from rich.console import Console

import tidemill.arrow
from benchmarks import report, workloads
from benchmarks.cases import Case, Kind
from benchmarks.measure import prepare_machine
from benchmarks.spark_read import PARTITIONS, ROWS, TOPIC, VALUE_BYTES, fill
from benchmarks.tidemill_broker import TidemillBroker

OURS: Final = "tidemill.arrow.read"
LOOP: Final = "confluent-kafka loop"
CASE: Final = Case(name="arrow-read", kind=Kind.CONSUME, unit="rows/s", target=6.0)
COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
SCHEMA: Final = pa.schema(
    zip(COLUMNS, (pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC")), strict=True)
)


def read_topic(bootstrap: str, rows: int) -> pa.Table:
    return tidemill.arrow.read(TOPIC, bootstrap_servers=bootstrap, columns=COLUMNS).read_all()


def read_in_loop(bootstrap: str, rows: int) -> pa.Table:
    """Fill the columns record by record, in record batches of one lot of the client library."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "benchmark", "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 1, "queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_000_000,
    })  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    batches: list[pa.RecordBatch] = []
    count = 0
    while count < rows:
        columns: tuple[list[Any], ...] = ([], [], [], [], [])
        keys, values, partitions, offsets, timestamps = columns
        for message in consumer.consume(workloads.LOT, timeout=1.0):
            if message.error() is not None:
                raise KafkaException(message.error())
            keys.append(message.key())
            values.append(message.value())
            partitions.append(message.partition())
            offsets.append(message.offset())
            timestamps.append(message.timestamp()[1])
        count += len(keys)
        batches.append(
            pa.record_batch(
                [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )
        )
    consumer.close()
    return pa.Table.from_batches(batches)


SIDES: Final[dict[str, Callable[[str, int], pa.Table]]] = {OURS: read_topic, LOOP: read_in_loop}


def rate(side: str, bootstrap: str, rows: int) -> float:
    """Return the rows per second of one read, and check the number of rows and of bytes."""
    started = time.perf_counter()
    table = SIDES[side](bootstrap, rows)
    seconds = time.perf_counter() - started
    seen = (table.num_rows, pc.sum(pc.binary_length(table["value"])).as_py())
    if seen != (rows, rows * VALUE_BYTES):
        raise RuntimeError(f"{side} read (rows, bytes) {seen} and not {(rows, rows * VALUE_BYTES)}")
    return rows / seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arrow_read")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    console = Console(width=130, soft_wrap=True)
    outcome = report.Outcome(CASE)
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        broker = TidemillBroker(Path(directory) / "tidemill")
        try:
            broker.wait_until_ready()
            fill(broker.bootstrap, options.rows)
            prepare_machine()
            for number in range(options.rounds):
                for side in list(SIDES) if number % 2 == 0 else reversed(SIDES):
                    outcome.add(side, {"value": rate(side, broker.bootstrap, options.rows)})
        finally:
            broker.stop()
    report.show([outcome], ours=OURS, yardstick=LOOP, notes=[], console=console)
    path = report.save([outcome], ours=OURS, yardstick=LOOP, notes=[], name="arrow")
    console.print(f"saved as {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
