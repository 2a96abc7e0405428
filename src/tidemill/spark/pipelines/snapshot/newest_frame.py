"""Selects the newest row of every key of a DataFrame."""

from typing import TYPE_CHECKING, Final

from tidemill.spark.pipelines.snapshot.newest_rows import MERGED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS: Final = "partitions"
"""The column with the number of partitions that contain rows with the key."""


def newest(rows: "DataFrame") -> "DataFrame":
    """
    Return the newest row of every key, with the columns MERGED (summed over all rows of the key) and PARTITIONS.

    Within a partition, the row with the greatest offset is the newest.  A key can be in several partitions if the
    partition count was changed or producers use different partitioners; then the row with the newest timestamp is kept,
    and of rows with equal timestamps the one in the highest partition.

    A single shuffle by key is enough: Spark groups by key and partition, and then by key, without a second shuffle.
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

    contents = [name for name in rows.columns if name not in ("key", "partition", "offset", MERGED)]
    by_partition = (
        rows.repartition("key")
        .groupBy("key", "partition")
        .agg(
            F.max("offset").alias("offset"),
            F.max_by(F.struct(*contents), "offset").alias("contents"),
            F.sum(MERGED).alias(MERGED),
        )
    )
    by_key = by_partition.groupBy("key").agg(
        F.max_by(F.struct("partition", "offset", "contents"), F.struct("contents.timestamp", "partition")).alias("row"),
        F.sum(MERGED).alias(MERGED),
        F.count(F.lit(1)).alias(PARTITIONS),
    )
    chosen = {name: F.col(f"row.contents.{name}") for name in contents}
    for name in ("partition", "offset"):
        chosen[name] = F.col(f"row.{name}")
    return by_key.select(*(chosen[name].alias(name) if name in chosen else name for name in rows.columns), PARTITIONS)
