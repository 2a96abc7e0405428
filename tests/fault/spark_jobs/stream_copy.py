"""A streaming query that copies a topic with Tidemill's source and sink, in small batches, until the end of the topic.

python stream_copy.py MASTER BOOTSTRAP SOURCE TARGET CHECKPOINT RECORDS
"""

import sys

from tests.fault.spark_jobs.driver import CONFIGURATION
from tidemill.spark import session


def main(master: str, bootstrap: str, source: str, target: str, checkpoint: str, records: str) -> None:
    builder = session.builder("stream copy", master)
    for setting in CONFIGURATION:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    rows = (
        spark.readStream.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", records)
        .load()
        .select("key", "value", "headers", "timestamp")
    )
    query = (
        rows.writeStream.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("includeHeaders", "true")
        .option("checkpointLocation", checkpoint)
    )
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
