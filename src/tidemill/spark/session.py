"""Recommended session settings, which give fast bulk reads and Parquet files that other tools can read."""

import os
import sys
from typing import TYPE_CHECKING, Final

from tidemill.spark import slow_nulls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Final = {
    # Spark's default pattern, extended by the keys of literal secrets that Spark would show in plans, the event log and
    # its web UI.
    "spark.redaction.regex": (
        "(?i)secret|password|token|access[.]?key|private[.]key|jaas|oauthbearer[.]extensions"
        "|ssl[.]key[.]pem|ssl[.]keystore[.]key"
    ),
    # A limit in bytes makes Spark slow (`slow_nulls`), so only the number of rows is limited.  2,000 records of 1 MiB,
    # Kafka's default maximum, fit into an Arrow column of 2 GiB.
    slow_nulls.KEY: slow_nulls.UNLIMITED,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # Iceberg's readers refuse Spark's default, INT96
    "spark.sql.python.filterPushdown.enabled": "true",  # without it, the option filterPushdown has no effect
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def builder(app_name: str, master: str | None = None) -> "SparkSession.Builder":
    """
    Return a session builder with the settings in DEFAULTS.  Later settings on the builder override them.
    """
    from pyspark.sql import SparkSession

    configured = SparkSession.builder.appName(app_name)
    if master is not None:
        configured = configured.master(master)
        if master.startswith("local"):
            # Without this setting, workers would run the first `python3` on the path, in which Tidemill may not be
            # installed.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in DEFAULTS.items():
        configured = configured.config(key, value)
    return configured


def install(spark: "SparkSession") -> None:
    """
    Register `format("tidemill")` explicitly.

    This is needed if the Spark cluster has Tidemill only as a `--py-files` archive, because Spark does not search such
    archives for `pyspark_tidemill`.
    """
    from tidemill.spark.data_source import TidemillDataSource

    spark.dataSource.register(TidemillDataSource)
