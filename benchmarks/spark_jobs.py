"""
The Spark side of the benchmarks.  It runs in the benchmarks' own PySpark, not in the environment of the checkout.

`python -m benchmarks.spark_jobs '{"do": "read", "format": "kafka", "bootstrap": …, "topic": …, "jars": […], …}'` runs
one job and prints its figures as one JSON line.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

CORES = 2  # the targets are set for local[2]
AGGREGATE = (
    "count(1) AS row_count",
    "sum(length(key)) AS key_bytes",
    "sum(length(value)) AS value_bytes",
    "sum(partition) AS partitions",
    "sum(offset) AS offsets",
    "max(timestamp) AS newest",
)
FED_RECORDS, FED_EVERY_S = 10, 0.05  # to the source of the stream, so that every micro-batch has records
BATCH_SECONDS_MAX = 60.0  # without a micro-batch, the query hangs

Order = dict[str, Any]


def main() -> None:
    order: Order = json.loads(sys.argv[1])
    spark = session(order)
    figures = JOBS[order["do"]](spark, order)
    print(json.dumps(figures), flush=True)
    spark.stop()


def session(order: Order) -> Any:
    from pyspark.sql import SparkSession  # not installed in the environment that checks this file

    builder = SparkSession.builder.master(f"local[{CORES}]").appName("benchmark")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.driver.memory", "4g").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    if order["jars"]:
        builder = builder.config("spark.jars", ",".join(order["jars"]))
    for key, value in order.get("settings", {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark: Any, order: Order) -> dict[str, Any]:
    """Read the whole topic once to warm up and then `rounds` times; return the rows per second of each."""
    rates = [_read_once(spark, order) for _ in range(order["rounds"] + 1)]
    return {"warm_up": rates[0], "rates": rates[1:]}


def _read_once(spark: Any, order: Order) -> float:
    """
    Return the rows per second of one aggregate over all five columns, and check its count of rows.
    """
    frame = (
        spark.read.format(order["format"])
        .option("kafka.bootstrap.servers", order["bootstrap"])
        .option("subscribe", order["topic"])
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )
    started = time.perf_counter()
    row = frame.selectExpr(*AGGREGATE).collect()[0]
    seconds = time.perf_counter() - started
    seen = (row["row_count"], row["value_bytes"])
    wanted = (order["rows"], order["rows"] * order["value_bytes"])
    if seen != wanted:
        raise RuntimeError(f"Spark read (rows, bytes) {seen} and not {wanted}")
    return float(order["rows"] / seconds)


def write(spark: Any, order: Order) -> dict[str, Any]:
    """Write `rows` rows, which are in Spark's memory, once to warm up and then `rounds` times; as `read`."""
    columns = [
        "cast(concat('key-', id % 1000) AS binary) AS key",
        f"cast(rpad(lpad(id, 12, '0'), {order['value_bytes']}, '~') AS binary) AS value",
    ]
    if order["has_headers"]:
        columns.append("array(struct('h' AS key, cast('v' AS binary) AS value)) AS headers")
    frame = spark.range(0, order["rows"], 1, 2 * CORES).selectExpr(*columns).persist()
    if frame.count() != order["rows"]:
        raise RuntimeError("the rows are not in memory")
    writer = frame.write.format(order["format"]).mode("append").option("topic", order["topic"])
    writer = writer.option("kafka.bootstrap.servers", order["bootstrap"])
    rates = []
    for _ in range(order["rounds"] + 1):
        started = time.perf_counter()
        writer.save()
        rates.append(order["rows"] / (time.perf_counter() - started))
    return {"warm_up": rates[0], "rates": rates[1:]}


def stream(spark: Any, order: Order) -> dict[str, Any]:
    """
    Copy a topic, which is filled meanwhile, to another for `batches` micro-batches.

    Return the quantiles of their durations in ms, without those of the first fifth, and the memory of Python workers
    after that fifth and at the end, in MB.
    """
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(2 * order["batches"]))
    servers = {"kafka.bootstrap.servers": order["bootstrap"]}
    warm = order["batches"] // 5
    resident: dict[int, float] = {}
    with tempfile.TemporaryDirectory(prefix="tidemill-checkpoint-") as checkpoint, _fed(order):
        source = spark.readStream.format(order["format"]).options(**servers, subscribe=order["source"])
        sink = source.load().select("key", "value").writeStream.format(order["format"]).options(**servers)
        query = sink.option("topic", order["sink"]).option("checkpointLocation", checkpoint).start()
        for number in (warm, order["batches"]):
            _wait_for_batch(query, number)
            resident[number] = python_memory_mb()
        durations = [
            one["durationMs"]["triggerExecution"]
            for one in query.recentProgress
            if one["numInputRows"] and one["batchId"] >= warm
        ]
        query.stop()
    cuts = quantiles(durations, n=100)
    return {"p50": cuts[49], "p99": cuts[98], "early_mb": resident[warm], "late_mb": resident[order["batches"]]}


@contextmanager
def _fed(order: Order) -> Iterator[None]:
    """Produce records to the source topic all the time."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": order["bootstrap"], "linger.ms": 0})
    is_over = threading.Event()

    def feed() -> None:
        while not is_over.wait(FED_EVERY_S):
            for _ in range(FED_RECORDS):
                producer.produce(order["source"], bytes(order["value_bytes"]))
            producer.poll(0)

    feeding = threading.Thread(target=feed, daemon=True)
    feeding.start()
    try:
        yield
    finally:
        is_over.set()
        feeding.join()
        producer.flush(30)


def _wait_for_batch(query: Any, number: int) -> None:
    last, gives_up_at = -1, time.monotonic() + BATCH_SECONDS_MAX
    while last < number:
        time.sleep(0.05)
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > last:
            last, gives_up_at = progress["batchId"], time.monotonic() + BATCH_SECONDS_MAX
        if time.monotonic() > gives_up_at:
            raise RuntimeError(f"batch {last} of {number} was the last within {BATCH_SECONDS_MAX:.0f} s")


def python_memory_mb() -> float:
    """Return the memory of the Python processes that Spark has started; pages that they share count once."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().rsplit(")", 1)
        except OSError:  # the process has ended
            continue
        process = int(path.parent.name)
        parents[process], names[process] = int(rest.split()[1]), name
    workers = [one for one in parents if "python" in names[one] and _is_started_here(one, parents)]
    return sum(map(_proportional_kb, workers)) / 1_024


def _is_started_here(process: int, parents: dict[int, int]) -> bool:
    while process in parents:
        process = parents[process]
        if process == os.getpid():
            return True
    return False


def _proportional_kb(process: int) -> int:
    """Return the proportional set size: a page that n processes share counts as 1/n in each."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # the process has ended
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


JOBS = {"read": read, "write": write, "stream": stream}


if __name__ == "__main__":
    main()
