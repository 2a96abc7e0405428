"""The offsets and rows of a topic that an audit compares."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.spark.pipelines.audit.bounds import Bounds
from tidemill.spark.pipelines.frame import source_range
from tidemill.spark.pipelines.frame.one_topic import OneTopic
from tidemill.spark.pipelines.frame.positions import parse_position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_RECORDS = 500_000  # at most this many offsets per task, so that every core has work


def bounds_of(kafka: Mapping[str, str], topic: str, start: str, end: str) -> Bounds:
    """
    Return the offsets between two positions, in the notation of `frame.positions`.

    Raise UnknownTopic, ValueError for an invalid position, or ClientError if a request fails.
    """
    with OneTopic(topic, kafka) as source:
        positions = parse_position(topic, "start", start), parse_position(topic, "end", end)
        found = source_range.resolve(source.offsets, *positions)
    return Bounds(
        {it.partition: offset for it, offset in found.start.items()},
        {it.partition: offset for it, offset in found.end.items()},
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
