"""Reads a part of a plan with the schema that Spark expects.  It runs in executors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from tidemill.columnar.row_filter import RowFilter
from tidemill.columnar.source_options import SourceOptions
from tidemill.columnar.work_reader import Work, WorkReader
from tidemill.spark import row_schema

if TYPE_CHECKING:
    import pyarrow as pa


def record_batches(
    options: SourceOptions, schema: StructType, work: Work | None, row_filter: RowFilter | None = None
) -> Iterator["pa.RecordBatch"]:
    """
    Yield the records of `work` that `row_filter` selects, with exactly the schema that Spark expects.

    `work` is None if the plan is empty: Spark replaces an empty plan with one partition without a value.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if work is None:
        return
    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = row_schema.columns_for(schema, options)
    for rows in WorkReader(options, columns).record_batches(work):
        if row_filter is not None:
            rows = row_filter.rows_with_key(rows)
        # The arrays need no conversion: the user's schema may differ only in the case of column names and in
        # nullability.
        yield rows if rows.schema.equals(wanted) else type(rows).from_arrays(rows.columns, schema=wanted)
