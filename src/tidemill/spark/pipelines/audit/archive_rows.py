"""The offsets and rows of an archive that an audit compares: those of the batches that the manifest lists."""

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.spark.pipelines.archive import archive_reader, manifest
from tidemill.spark.pipelines.audit.bounds import Bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def bounds_of(archive: str, topic: str) -> Bounds:
    """
    Return the offset ranges that the archive contains; they are empty if the archive has no batch yet.

    Raise ArchiveRefused if `archive` is not an archive or its manifest is damaged, and ValueError if the archive
    belongs to another topic.
    """
    path = Path(archive)
    manifest.data_files(path)  # raises ArchiveRefused if this is not an archive
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for entry in manifest.entries(path):
        if entry.topic != topic:
            raise ValueError(f"archive={archive} is the archive of topic {entry.topic}, not {topic}: name another one")
        starts = {partition: start for partition, (start, _) in entry.ranges.items()} | starts
        ends |= entry.ends
    return Bounds(starts, ends)


def rows_of(spark: "SparkSession", archive: str, bounds: Bounds) -> "DataFrame | None":
    """Return the archived records of these offsets; None if there are no offsets."""
    from pyspark.sql import functions as F  # noqa: N812

    conditions = [
        (F.col("partition") == partition) & F.col("offset").between(start, end - 1)
        for partition, (start, end) in bounds.non_empty().items()
    ]
    if not conditions:
        return None
    return archive_reader.read(spark, archive).where(reduce(lambda one, other: one | other, conditions))
