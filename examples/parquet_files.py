"""Write the topic as Parquet files with Spark, and compare them with the package's own table."""

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress, TaskID

from examples.failure import DemoFailed, check
from examples.flights import FLIGHT_COUNT, LOCAL_ZONE, NO_DELAY_COUNT, FlightTable

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import DataFrame, SparkSession


def spark_session(output: Path, python_path: str) -> "SparkSession":
    """Return a session whose Python workers find Tidemill on `python_path`; the log goes into `output`."""
    from tidemill.spark import session

    os.environ["PYTHONPATH"] = python_path
    stderr = os.dup(2)  # the output of Spark's JVM goes to a file
    with (output / "spark.log").open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            spark = (
                session.builder("flights", "local[2]")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.sql.shuffle.partitions", "2")
                .config("spark.ui.showConsoleProgress", "false")
                .getOrCreate()
            )
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    return spark


def write_parquet(spark: "SparkSession", bootstrap: str, topic: str, path: Path, progress: Progress) -> int:
    """Write the topic as Parquet, one folder for each local month, and return the number of rows."""
    from pyspark.sql import functions as f

    records = (
        spark.read.format("tidemill").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    )
    schema = "carrier string, dep_delay double, origin string, dest string, flight int, month int"
    rows = records.select(
        f.col("key").cast("string").alias("key"),
        "partition",
        "offset",
        "timestamp",
        f.from_json(f.col("value").cast("string"), schema).alias("flight"),
    ).select(
        "key",
        "partition",
        "offset",
        "timestamp",
        "flight.carrier",
        "flight.dep_delay",
        "flight.origin",
        "flight.dest",
        f.col("flight.month").alias("scheduled_month"),
        f.month(f.from_utc_timestamp("timestamp", LOCAL_ZONE)).alias("month"),
    )
    with_bar(spark, progress, "Spark: topic → Parquet", lambda: rows.write.partitionBy("month").parquet(str(path)))
    return int(spark.read.parquet(str(path)).count())


def with_bar(spark: "SparkSession", progress: Progress, title: str, act: Callable[[], Any]) -> None:
    """Run `act` in this thread, which has the session, and show how many of its Spark tasks are done."""
    bar = progress.add_task(title, total=None)
    is_done = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        shown = beside.submit(_show_tasks, spark.sparkContext.statusTracker(), progress, bar, is_done)
        try:
            act()
        finally:
            is_done.set()
        shown.result()
    total = next(task.total for task in progress.tasks if task.id == bar) or 1
    progress.update(bar, total=total, completed=total)


def _show_tasks(tracker: "StatusTracker", progress: Progress, bar: TaskID, is_done: threading.Event) -> None:
    while not is_done.wait(0.1):  # update interval of the progress bar
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        for stage in filter(None, stages):
            progress.update(bar, total=stage.numTasks, completed=stage.numCompletedTasks)


def check_parquet(spark: "SparkSession", path: Path, table: FlightTable) -> dict[str, float]:
    """Compare the files that Spark wrote with the package's own table, and return the mean delay by carrier."""
    from pyspark.sql import functions as f

    written = spark.read.parquet(str(path))
    check("different offsets", FLIGHT_COUNT, written.select("partition", "offset").distinct().count())
    check("rows without a delay", NO_DELAY_COUNT, written.where("dep_delay IS NULL").count())
    check("rows whose key is not the carrier", 0, written.where("key <> carrier").count())
    check("rows in another month's folder", 0, written.where("month <> scheduled_month").count())
    check("rows by month", dict(table.by_month), counts(written, "month"))
    means = {
        row.carrier: row.mean
        for row in written.where("dep_delay IS NOT NULL")
        .groupBy("carrier")
        .agg(f.mean("dep_delay").alias("mean"))
        .collect()
    }
    expected = table.mean_delays()
    check("carriers", sorted(expected), sorted(means))
    for carrier, mean in expected.items():
        if not math.isclose(mean, means[carrier], rel_tol=1e-9):
            raise DemoFailed(f"mean delay of {carrier}: the package says {mean}, Spark says {means[carrier]}")
    return means


def counts(rows: "DataFrame", column: str) -> dict[int, int]:
    return {row[column]: row["count"] for row in rows.groupBy(column).count().collect()}
