"""A streaming query that appends to Parquet files and trusts Spark's checkpoint, which `archive` does not do.

python checkpoint_append.py BOOTSTRAP TOPIC DIRECTORY [WAIT]

With WAIT, the query waits forever between writing its second batch and the checkpoint's commit of that batch.
"""

import sys
import threading
from pathlib import Path

from tests.fault.spark_jobs.driver import CONFIGURATION
from tidemill.spark import session


def main(bootstrap: str, topic: str, directory: Path, is_waiting: bool) -> None:
    builder = session.builder("checkpoint append", "local[2]")
    for setting in CONFIGURATION:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()

    def append(rows, number):  # type: ignore[no-untyped-def]
        rows.write.mode("append").parquet(str(directory / "data"))
        if is_waiting and number == 1:
            (directory / "written").touch()
            threading.Event().wait()

    rows = (
        spark.readStream.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", "100")
        .load()
    )
    query = rows.writeStream.foreachBatch(append).option("checkpointLocation", str(directory / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), "WAIT" in sys.argv[4:])
