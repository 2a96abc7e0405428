"""The reader of batch queries: the driver resolves start and end offsets once, and executors read offset ranges."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidemill.columnar import data_loss
from tidemill.columnar.offset_ranges import OffsetRange, divided
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.columnar.source_options import SourceOptions
from tidemill.spark import range_rows, row_schema

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Plans and reads a batch query.  A pickled copy without connections is sent to every executor."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        # Refuse an unknown column before any task starts.
        row_schema.chosen_columns(schema, has_headers=options.has_headers)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options
        reader = OffsetReader(options)
        try:
            partitions = reader.partitions()
            starts = reader.resolve(options.starting, partitions, is_start=True)
            ends = reader.resolve(options.ending, partitions, is_start=False)
            earliest = reader.earliest(partitions)
            topic_ids = reader.topic_ids({partition.topic for partition in partitions})
        finally:
            reader.close()
        ranges = []
        for partition in sorted(partitions):
            start = starts[partition]
            if start < min(earliest[partition], ends[partition]):
                data_loss.report(
                    f"startingOffsets is {start} for {partition.topic}-{partition.partition}, "
                    f"which now starts at {earliest[partition]}.",
                    is_failing=options.is_failing_on_data_loss,
                )
                start = earliest[partition]
            ranges.append(OffsetRange(*partition, start, ends[partition], topic_ids[partition.topic]))
        planned = divided(
            ranges,
            partitions_min=options.partitions_min,
            records_per_partition_max=options.records_per_partition_max,
        )
        return [InputPartition(part) for part in planned]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return range_rows.record_batches(self._options, self._schema, partition.value)
