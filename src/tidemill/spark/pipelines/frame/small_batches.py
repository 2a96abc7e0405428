"""Makes Spark pass rows with headers to Python in small Arrow batches, regardless of the session's settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ROWS_MAX: Final = "1024"  # with null headers, Spark's time for a batch is quadratic in its rows: `spark/slow_nulls`


@contextmanager
def small_batches(spark: "SparkSession") -> Iterator[None]:
    """Limit the size of Arrow batches for queries that start inside the `with` block."""
    before = spark.conf.get(_KEY, None)
    spark.conf.set(_KEY, _ROWS_MAX)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_KEY)
        else:
            spark.conf.set(_KEY, before)
