"""The offsets and the rows of an archive that an audit compares."""

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.spark.pipelines.audit.bounds import Bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def bounds_of(spark: "SparkSession", archive: str, topic: str) -> Bounds:
    """Return the offsets that the archive has."""
    from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

    found = (
        _read(spark, archive, topic)
        .groupBy("partition")
        .agg(F.min("offset").alias("start"), F.max("offset").alias("last"))
        .collect()
    )
    if not found:
        raise ValueError(f"archive={archive} has no records of topic {topic}: check the path and the topic")
    return Bounds({row.partition: row.start for row in found}, {row.partition: row.last + 1 for row in found})


def rows_of(spark: "SparkSession", archive: str, topic: str, bounds: Bounds) -> "DataFrame | None":
    """Return the archived records of these offsets; None if there are no offsets."""
    from pyspark.sql import functions as F  # noqa: N812

    conditions = [
        (F.col("partition") == partition) & F.col("offset").between(start, end - 1)
        for partition, (start, end) in bounds.non_empty().items()
    ]
    if not conditions:
        return None
    return _read(spark, archive, topic).where(reduce(lambda one, other: one | other, conditions))


def _read(spark: "SparkSession", archive: str, topic: str) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    if not Path(archive).is_dir():
        raise ValueError(f"archive={archive} is no directory: write the --to of the archive")
    return spark.read.schema(SCHEMA).parquet(str(Path(archive).absolute())).where(F.col("topic") == topic)
