"""The reader of batch queries: the driver plans the read once, and executors read its parts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidemill.columnar import work_reader
from tidemill.columnar.row_filter import RowFilter
from tidemill.columnar.source_options import SourceOptions
from tidemill.spark import range_rows, row_schema
from tidemill.spark.filter_pushdown import PushFilters
from tidemill.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Plans and executes the read of a batch query.  A pickled copy without connections is sent to every executor."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        # Refuse an unknown column before any task starts.
        row_schema.columns_for(schema, options)
        self._options = options
        self._schema = schema
        self.row_filter = RowFilter()
        if options.is_filter_pushed_down:
            self.pushFilters = PushFilters(self)  # type: ignore[method-assign]

    @plain_errors()
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in work_reader.plan(self._options, self.row_filter)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        with plain_errors():
            yield from range_rows.record_batches(self._options, self._schema, partition.value, self.row_filter)
