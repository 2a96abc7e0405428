"""Writes the records of a batch as Parquet files, with Spark.

Rows are divided among tasks by ranges of (date, hour, partition, offset), so that each file contains one hour, few
offset ranges, and about the target size, even if the hours of a batch differ in size.  With more than one task, Spark
reads the records twice, the first time to determine the ranges.  A file is sorted by partition and offset.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidemill.columnar.data_loss import OnDataLoss
from tidemill.spark.pipelines.archive.file_plan import FilePlan
from tidemill.spark.pipelines.archive.layout import SCHEMA, PartitionBy
from tidemill.spark.pipelines.archive.next_batch import PlannedBatch
from tidemill.spark.pipelines.archive.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_READ_BYTES: Final = "64m"  # stored bytes per read task: several tasks read a large partition
_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"
_HOUR_MS: Final = 3_600_000


def write(
    spark: "SparkSession",
    kafka: Mapping[str, str],
    batch: PlannedBatch,
    staging: Staging,
    *,
    partition_by: PartitionBy,
    files: FilePlan,
    on_data_loss: OnDataLoss,
) -> None:
    """Write the records of `batch` below `staging.data`.  Errors of Spark propagate unchanged."""
    order = [*partition_by.columns, "partition", "offset"]
    rows = _with_times(_read(spark, kafka, batch, staging, on_data_loss), partition_by)
    rows = rows.repartitionByRange(files.task_count, *order).sortWithinPartitions(*order)
    # Readers such as PyIceberg refuse Spark's default timestamp type, INT96.  Spark's writer reads this setting only
    # from the session.
    before = spark.conf.get(_TIMESTAMPS)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        (
            rows.write.partitionBy(*partition_by.columns)
            .option("compression", "zstd")
            .option("maxRecordsPerFile", files.rows_per_file_max)
            # With version 1, only the output of tasks that Spark has accepted reaches the directory, even if an
            # executor is killed.
            .option("mapreduce.fileoutputcommitter.algorithm.version", "1")
            .parquet(f"file://{staging.data}")
        )
    finally:
        spark.conf.set(_TIMESTAMPS, str(before))


def _read(
    spark: "SparkSession",
    kafka: Mapping[str, str],
    batch: PlannedBatch,
    staging: Staging,
    on_data_loss: OnDataLoss,
) -> "DataFrame":
    partitions = batch.to_read
    options = {
        "assign": json.dumps({batch.topic: [partition.partition for partition in partitions]}),
        "startingOffsets": _offsets(batch.topic, {one.partition: batch.starts[one] for one in partitions}),
        "endingOffsets": _offsets(batch.topic, {one.partition: batch.ends[one] for one in partitions}),
        "includeHeaders": "true",
        "maxBytesPerPartition": _READ_BYTES,
        "onDataLoss": OnDataLoss.FAIL.value,
    }
    if on_data_loss is not OnDataLoss.FAIL:
        # Spark's tasks also report losses if on_data_loss is `skip`, because the batch's entry lists the lost offsets.
        options |= {"onDataLoss": OnDataLoss.REPORT.value, "dataLossLog": str(staging.losses)}
    return spark.read.format("tidemill").options(**kafka).options(**options).schema(SCHEMA).load()


def _with_times(rows: "DataFrame", partition_by: PartitionBy) -> "DataFrame":
    from pyspark.sql import functions as f

    # `unix_millis` and `date_from_unix_date` do not depend on the time zone of the session.
    hours = f.floor(f.unix_millis(f.col("timestamp")) / _HOUR_MS)
    columns: dict[str, Column] = {
        "date": f.date_from_unix_date(f.floor(hours / 24).cast("int")),
        "hour": f.lpad(f.pmod(hours, f.lit(24)).cast("string"), 2, "0"),
    }
    return rows.withColumns({name: columns[name] for name in partition_by.columns}) if partition_by.columns else rows


def _offsets(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in offsets.items()}})
