"""Reads the current version of a snapshot.

from tidemill.spark import pipelines

newest = pipelines.snapshot.read(spark, "planes-snapshot")
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.spark.pipelines.snapshot import manifest
from tidemill.spark.pipelines.snapshot.manifest import SnapshotRefused
from tidemill.spark.pipelines.snapshot.range_reduction import row_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: "SparkSession", snapshot: Path | str) -> "DataFrame":
    """
    Return the newest record of every key: key, value, partition, offset, timestamp and, if stored, headers.

    The DataFrame reads the version that is current when this function is called, even if a newer one exists when the
    query runs.  Raise SnapshotRefused if there is no snapshot.
    """
    path = Path(snapshot).absolute()
    current = manifest.read(path)
    if current is None:
        raise SnapshotRefused(f"{path} is not a snapshot: it has no file {manifest.MANIFEST}; check the path")
    return version(spark, path, current)


def version(spark: "SparkSession", snapshot: Path, current: manifest.Manifest) -> "DataFrame":
    """Return the rows of a version."""
    schema = row_schema(has_headers=current.has_headers)
    return spark.read.schema(schema).parquet(f"file://{snapshot / current.directory}")
