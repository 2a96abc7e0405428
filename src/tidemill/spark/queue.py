"""What a user's code decides about the rows of a stream with mode=share: reject them, or retry them later.

    from tidemill.spark import queue

    def send(row):
        if row.value is None:
            raise queue.Reject("no value")      # dead-lettered, if the group has a dead-letter topic
        if is_busy():
            raise queue.Retry(delay_seconds=60)  # delivered again after a minute

    jobs = spark.readStream.format("tidemill").options(**options).load()
    done = queue.process(jobs, send, options)   # the rows that are neither rejected nor retried

A decision is sent to the broker by the executor, at once.  It holds even if the micro-batch fails later.  The rows that
are left are acknowledged when their micro-batch is complete.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from tidemill.columnar.acquired_rows import RECEIPT
from tidemill.columnar.receipt_decisions import Decisions
from tidemill.spark import queue_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

__all__ = ["Reject", "Retry", "process", "reject", "retry"]

_LOG = logging.getLogger(__name__)

_RESOLVED: Final = "resolved"


class Reject(Exception):
    """
    Raised by a user's function: the record can never be processed.

    It becomes a dead letter if the group has a dead-letter topic.  The reason is logged by the executor.
    """


class Retry(Exception):
    """Raised by a user's function: the record is to be delivered again later."""

    def __init__(self, reason: str = "", *, delay_seconds: float | None = None) -> None:
        """`delay_seconds` is the time until the next delivery; None: as the group's back-off says."""
        super().__init__(reason)
        self.delay_seconds = delay_seconds


def process(
    rows: "DataFrame",
    function: Callable[["Row"], Any],
    options: Mapping[str, str],
    schema: "StructType | str | None" = None,
) -> "DataFrame":
    """
    Call `function` with each row, in the executors, and return a DataFrame without the rejected and retried rows.

    `function` raises Reject or Retry.  Any other exception fails the task, as usual, and then the query.  Without
    `schema`, the other rows are returned unchanged.  With a `schema`, `function` returns the new row, as a dictionary
    or a Row.  Spark may call it again for the same row, so it should decide in the same way.

    `rows` needs the column `receipt` of the stream.  `options` are those of the stream; of these, only the keys that
    begin with `kafka.` are used, and they are sent to the executors as the stream's are.

    Raise ValueError if the column is missing or an option is invalid.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    connection = queue_settings.checked(rows, options)
    new = rows.schema if schema is None else schema
    if isinstance(new, str):
        new = cast("StructType", StructType.fromDDL(new))
    new_schema = None if schema is None else to_arrow_schema(new, timezone="UTC")

    def run(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        decisions = Decisions(connection)
        for batch in batches:
            kept, results = _decided(batch, function, decisions)
            decisions.send()
            if new_schema is None:
                yield batch if len(kept) == batch.num_rows else batch.take(_indices(kept))
            elif results:
                yield type(batch).from_pylist(results, schema=new_schema)

    return rows.mapInArrow(run, new)


def reject(rows: "DataFrame", options: Mapping[str, str]) -> int:
    """
    Reject the records of these rows, in the executors, and return how many were rejected.  Use it in foreachBatch.

    `rows` and `options` are as in `process`.  Records that the query no longer holds are not counted.
    """
    return _resolve(rows, options, Decisions.reject)


def retry(rows: "DataFrame", options: Mapping[str, str], *, delay_seconds: float | None = None) -> int:
    """Have the records of these rows delivered again later, like `reject`.  The delay is that of Retry."""
    delay_ms = _delay_ms(delay_seconds)

    def again(decisions: Decisions, receipt: str | None) -> None:
        decisions.retry(receipt, delay_ms)

    return _resolve(rows, options, again)


def _resolve(rows: "DataFrame", options: Mapping[str, str], decide: Callable[[Decisions, str | None], None]) -> int:
    connection = queue_settings.checked(rows, options)

    def run(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        decisions = Decisions(connection)
        for batch in batches:
            for receipt in batch.column(RECEIPT).to_pylist():
                decide(decisions, receipt)
            yield type(batch).from_pydict({_RESOLVED: [decisions.send()]})

    counts = rows.select(RECEIPT).mapInArrow(run, f"{_RESOLVED} long").groupBy().sum(_RESOLVED).collect()
    return counts[0][0] or 0


def _decided(
    batch: "pa.RecordBatch", function: Callable[["Row"], Any], decisions: Decisions
) -> tuple[list[int], list[Any]]:
    """Call the function with each row.  Return the numbers of the rows that are left, and the function's results."""
    from pyspark.sql import Row

    kept: list[int] = []
    results: list[Any] = []
    for number, fields in enumerate(batch.to_pylist()):
        row = Row(**fields)
        try:
            result = function(row)
        except Reject as why:
            _LOG.info("rejected %s: %s", fields[RECEIPT], why)
            decisions.reject(fields[RECEIPT])
        except Retry as why:
            _LOG.info("to be retried: %s: %s", fields[RECEIPT], why)
            decisions.retry(fields[RECEIPT], _delay_ms(why.delay_seconds))
        else:
            kept.append(number)
            results.append(result.asDict(recursive=True) if isinstance(result, Row) else result)
    return kept, results


def _delay_ms(seconds: float | None) -> int | None:
    if seconds is not None and seconds < 0:
        raise ValueError(f"delay_seconds={seconds} is negative: set 0 or more, or None for the group's back-off")
    return None if seconds is None else round(seconds * 1_000)


def _indices(numbers: list[int]) -> "pa.Array":
    import pyarrow as pa

    return pa.array(numbers, pa.int64())
