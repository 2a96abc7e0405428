"""What a session should be set to, so that bulk reads are fast and files are read everywhere."""

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # Spark's own INT96 is refused by Iceberg's readers
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def builder(app_name: str, master: str | None = None) -> "SparkSession.Builder":
    """A session builder with our defaults; what is configured after it wins."""
    from pyspark.sql import SparkSession

    configured = SparkSession.builder.appName(app_name)
    if master is not None:
        configured = configured.master(master)
        if master.startswith("local"):
            # Else the workers are whatever `python3` is first on the path, which need not have us installed.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in DEFAULTS.items():
        configured = configured.config(key, value)
    return configured


def install(spark: "SparkSession") -> None:
    """Register `format("tidemill")` by hand: needed where only a `--py-files` archive reaches the cluster, in which
    Spark does not look for `pyspark_tidemill`."""
    from tidemill.spark.data_source import TidemillDataSource

    spark.dataSource.register(TidemillDataSource)
