"""The rows of a step as a DataFrame, filtered, and with shifted timestamps or with the times at which they are due.

Every operation keeps the rows of a source partition in one task and in order.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tidemill.model.delayed_record import DUE_MS_MIN, TIMER_HEADERS
from tidemill.spark.pipelines.replay.schedule import DueTimes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

_IS_KEPT: Final = "is_kept"


def filtered(frame: "DataFrame", condition: str | None) -> "DataFrame":
    """Return the rows for which `condition`, an SQL expression, is true.  Raise ValueError if Spark refuses it."""
    from pyspark.errors import AnalysisException

    if condition is None:
        return frame
    try:
        kept = frame.where(condition)
        kept.schema  # noqa: B018 - Spark Connect checks the expression only when it is asked for the schema
    except AnalysisException as error:
        raise ValueError(
            f"filter={condition} is not a condition on {', '.join(frame.columns)}: {str(error).splitlines()[0]}"
        ) from None
    return kept


def counted(frame: "DataFrame", condition: str | None, counts: "Observation") -> "DataFrame":
    """
    Return the rows that `filtered` returns, and count in `counts` the rows that are read and kept.

    The condition is first computed as a column, because Spark's optimizer would remove the plan below a filter that is
    never true, and the counts with it.
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

    is_kept = F.lit(True) if condition is None else F.expr(condition)
    return (
        frame.withColumn(_IS_KEPT, is_kept)
        .observe(counts, F.count(F.lit(1)).alias("read"), F.count_if(F.col(_IS_KEPT)).alias("kept"))
        .where(_IS_KEPT)
    )


def shifted(frame: "DataFrame", shift: timedelta, *, has_partition: bool) -> "DataFrame":
    """Return the columns that the sink writes, with `shift` added to the timestamps."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

    columns: list[Column | str] = ["key", "value", "headers"]
    if has_partition:
        columns.append("partition")
    milliseconds = shift // timedelta(milliseconds=1)
    timestamp = F.timestamp_millis(F.unix_millis("timestamp") + F.lit(milliseconds))
    return frame.select(*columns, timestamp.alias("timestamp"))


def delayed(frame: "DataFrame", due: DueTimes, *, has_partition: bool) -> "DataFrame":
    """
    Return the columns that the sink writes to a timer topic.  The timestamps stay as they are.

    The headers of timers are left out: an id would let a later record replace an earlier one that still waits.
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

    partition = ["partition"] if has_partition else []
    headers = F.filter("headers", lambda one: ~one["key"].isin(*TIMER_HEADERS))
    # As in `DueTimes.due_ms`, with the same arithmetic: both divide as IEEE 754 says.
    since = F.ceil((F.unix_millis("timestamp") - F.lit(due.first_timestamp_ms)) / F.lit(due.speed))
    deliver_at = F.greatest(F.lit(due.first_due_ms) + since, F.lit(DUE_MS_MIN)).cast("long")
    return frame.select(
        "key", "value", *partition, headers.alias("headers"), "timestamp", deliver_at.alias("deliver_at")
    )
