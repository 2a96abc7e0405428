"""Reads an archive of Parquet files with Spark: exactly the files that its manifest names.

from tidemill.spark import pipelines

rows = pipelines.archive.read(spark, "/archive/flights")
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.spark.pipelines.archive import manifest
from tidemill.spark.pipelines.archive.layout import schema_with_directories

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: "SparkSession", archive: Path | str) -> "DataFrame":
    """
    Return the rows of all batches that were committed when this function is called.

    The columns are those of `format("tidemill")`, and `date` and `hour` if the archive is partitioned by them; with a
    filter on `date` or `hour`, Spark reads fewer files.  Raise ArchiveRefused if `archive` is not an archive or its
    manifest is damaged.
    """
    path = Path(archive).absolute()
    files = manifest.data_files(path)
    last = manifest.last_entry(path)
    schema = schema_with_directories("none" if last is None else last.partition_by)
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", f"file://{path}")
    return reader.parquet(*(f"file://{file}" for file in files))
