"""The records of an offset range as a DataFrame."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.columnar.offset_bound import to_json
from tidemill.model.partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offsets = Mapping[TopicPartition, int]


def topic_rows(
    spark: "SparkSession", kafka: Mapping[str, str], start: Offsets, end: Offsets, schema: str | None = None
) -> "DataFrame":
    """
    Return the records from `start` to `end`; each partition is read by one task, in offset order.

    `end` contains at least one partition, and `start` contains all partitions of `end`.  The columns are those of
    `schema`, or all columns including headers.
    """
    options = {
        "assign": json.dumps({topic: [int(number) for number in numbers] for topic, numbers in to_json(end).items()}),
        "startingOffsets": json.dumps(to_json({partition: start[partition] for partition in end})),
        "endingOffsets": json.dumps(to_json(end)),
        "includeHeaders": "true",
    }
    reader = spark.read.format("tidemill").options(**kafka, **options)
    return (reader if schema is None else reader.schema(schema)).load()
