"""The offsets and the rows of a topic that an audit compares."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.columnar import source_options
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.spark.pipelines.audit.bounds import Bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_RECORDS = 500_000  # the most offsets of a task, so that every core has work


def bounds_of(kafka: Mapping[str, str], topic: str, starting: str, ending: str) -> Bounds:
    """
    Return the offsets between two positions, each in the notation of the options `startingOffsets` and `endingOffsets`.

    Raise UnknownTopic, ValueError for a position, and ClientError if the cluster cannot be asked.
    """
    texts = {name.lower(): value for name, value in kafka.items()}
    texts |= {"subscribe": topic, "startingoffsets": starting, "endingoffsets": ending}
    options = source_options.for_batch(texts)
    reader = OffsetReader(options)
    try:
        partitions = reader.partitions()
        starts = reader.resolve(options.starting, partitions, is_start=True)
        ends = reader.resolve(options.ending, partitions, is_start=False)
        earliest = reader.earliest(partitions)
    finally:
        reader.close()
    return Bounds(
        {it.partition: max(starts[it], earliest[it]) for it in partitions},
        {it.partition: max(ends[it], earliest[it]) for it in partitions},
    )


def rows_of(spark: "SparkSession", kafka: Mapping[str, str], topic: str, bounds: Bounds) -> "DataFrame | None":
    """Return the records of these offsets; None if there are none."""
    ranges = bounds.non_empty()
    if not ranges:
        return None
    options = {
        "assign": json.dumps({topic: [*ranges]}),
        "startingOffsets": json.dumps({topic: {p: start for p, (start, _) in ranges.items()}}),
        "endingOffsets": json.dumps({topic: {p: end for p, (_, end) in ranges.items()}}),
        "includeHeaders": "true",
        "maxRecordsPerPartition": str(TASK_RECORDS),
    }
    return spark.read.format("tidemill").options(**kafka).options(**options).load()
