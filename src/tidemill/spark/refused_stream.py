"""Stands in for the reader of a streaming query whose options are refused.

If a reader cannot be created, Spark fails while it stops the missing reader, and shows that failure instead of the
original error.  A RefusedStream can always be created, and raises the original error when Spark first uses it.
"""

from collections.abc import Iterator
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from tidemill.spark.plain_errors import plain_errors


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader without a stream: all methods raise `error`, except `stop`."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @plain_errors()
    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise self._error

    @plain_errors()
    def latestOffset(self, start: object, limit: ReadLimit) -> NoReturn:  # noqa: N802 - Spark's name
        raise self._error

    @plain_errors()
    def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise self._error

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise self._error

    @plain_errors()
    def partitions(self, start: object, end: object) -> NoReturn:
        raise self._error

    @plain_errors()
    def read(self, partition: InputPartition) -> Iterator[NoReturn]:
        raise self._error
