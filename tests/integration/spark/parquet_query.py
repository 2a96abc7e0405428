"""A streaming query to Parquet, run as a separate process that a test can kill.

python parquet_query.py BOOTSTRAP TOPIC DIRECTORY OFFSETS_PER_TRIGGER
"""

import sys
from pathlib import Path

from tidemill.spark import session


def main(bootstrap: str, topic: str, directory: Path, offsets_per_trigger: str) -> None:
    spark = (
        session.builder("parquet_query", "local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    rows = (
        spark.readStream.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", offsets_per_trigger)
        .load()
    )
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(directory / "data"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
