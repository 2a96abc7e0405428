"""Makes the target that the options of an archive name."""

from tidemill.spark.pipelines.archive.options import ArchiveOptions
from tidemill.spark.pipelines.archive.target import Target


def open_target(options: ArchiveOptions) -> Target:
    """Return the target, without writing to it."""
    from tidemill.spark.pipelines.archive.parquet_target import ParquetTarget

    return ParquetTarget(options.directory)
