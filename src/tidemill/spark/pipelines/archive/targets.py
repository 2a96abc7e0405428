"""Creates the target that the options of an archive specify."""

from tidemill.spark.pipelines.archive.batch_entry import ArchiveRefused
from tidemill.spark.pipelines.archive.options import ArchiveOptions, TableFormat
from tidemill.spark.pipelines.archive.target import Target
from tidemill.spark.pipelines.frame.job import Job


def open_target(job: Job[ArchiveOptions]) -> Target:
    """Return the target, without writing to it.  Raise ArchiveRefused if PyIceberg is needed but not installed."""
    if job.options.format is TableFormat.ICEBERG:
        try:
            from tidemill.spark.pipelines.archive.iceberg_target import IcebergTarget
        except ModuleNotFoundError as error:
            raise ArchiveRefused("format=iceberg needs PyIceberg: pip install 'tidemill[iceberg]'") from error
        return IcebergTarget(job.options, job.state)
    from tidemill.spark.pipelines.archive.parquet_target import ParquetTarget

    return ParquetTarget(job.options.directory)
