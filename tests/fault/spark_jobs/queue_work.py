"""A streaming query that processes the jobs of a share group, and writes those that are done to another topic.

python queue_work.py MASTER BOOTSTRAP JOBS DONE GROUP CHECKPOINT

The query runs until its processes are killed, or until it fails.
"""

import sys

from pyspark.sql import Row

from tests.fault.spark_jobs.driver import CONFIGURATION
from tidemill.spark import queue, session

# Executors are killed again and again, which must fail neither the query nor the application.
PATIENCE = ("spark.task.maxFailures=50", "spark.deploy.maxExecutorRetries=-1", "spark.locality.wait=0")


def is_rejected(number: int) -> bool:
    return number % 997 == 5


def work(row: Row) -> None:
    """Reject some jobs, and fail some others the first time they are delivered."""
    number = int(row.value)
    if is_rejected(number):
        raise queue.Reject(f"job {number} cannot be done")
    if number % 101 == 7 and row.deliveryCount == 1:
        raise queue.Retry(f"job {number} is done later", delay_seconds=0.2)


def main(master: str, bootstrap: str, jobs: str, done: str, group: str, checkpoint: str) -> None:
    builder = session.builder("queue work", master)
    for setting in (*CONFIGURATION, *PATIENCE):
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": jobs, "mode": "share", "group": group}
    rows = spark.readStream.format("tidemill").options(**options).load()
    query = (
        queue.process(rows, work, options)
        .select("key", "value")
        .writeStream.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", done)
        .option("checkpointLocation", checkpoint)
    )
    query.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
