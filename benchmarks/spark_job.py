"""
The Spark side of the read benchmark.  It runs in the benchmark's own PySpark, not in the environment of the checkout.

`python spark_job.py '{"format": "kafka", "bootstrap": …, "topic": …, "rows": …, "rounds": …, "jars": […]}'` reads the
whole topic once to warm up and then `rounds` times, and prints the rows per second of each as one JSON line.
"""

import json
import sys
import time
from typing import Any

CORES = 2  # the target is set for local[2]
AGGREGATE = (
    "count(1) AS row_count",
    "sum(length(key)) AS key_bytes",
    "sum(length(value)) AS value_bytes",
    "sum(partition) AS partitions",
    "sum(offset) AS offsets",
    "max(timestamp) AS newest",
)


def main() -> None:
    from pyspark.sql import SparkSession  # not installed in the environment that checks this file

    order: dict[str, Any] = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("benchmark")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.driver.memory", "4g").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    if order["jars"]:
        builder = builder.config("spark.jars", ",".join(order["jars"]))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rates = [read_once(spark, order) for _ in range(order["rounds"] + 1)]
    print(json.dumps({"warm_up": rates[0], "rates": rates[1:]}), flush=True)
    spark.stop()


def read_once(spark: Any, order: dict[str, Any]) -> float:
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


if __name__ == "__main__":
    main()
