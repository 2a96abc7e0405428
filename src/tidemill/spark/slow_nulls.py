"""Warns of a setting with which Spark spends most of the time of a write on the null headers of rows.

Before a task sees rows, Spark collects them in Arrow batches.  With a limit in bytes, which is the default, Spark
measures the batch after each row, and each time scans the trailing null arrays.  The time is quadratic in the number of
rows in a batch.  The sink cannot change the setting; `spark.session` does.
"""

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)

KEY: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
UNLIMITED: Final = str((1 << 31) - 1)  # the value with which Spark does not measure batches
_NULLS_MAX: Final = 1_000  # Spark measures a batch with fewer null headers in less time than sending takes


def warn(rows: "pa.RecordBatch", bytes_max: str | None) -> bool:
    """
    Log a warning if `rows` contains so many null headers that Spark was slow, and return whether a warning was logged.

    `bytes_max` is the value of KEY in the session, or None for Spark's default.
    """
    if bytes_max == UNLIMITED or "headers" not in rows.schema.names:
        return False
    nulls = rows.column("headers").null_count
    if nulls <= _NULLS_MAX:
        return False
    _LOG.warning(
        "%d of %d rows have null headers, for which Spark takes time that grows with the square of their number: set "
        "%s=%s and spark.sql.execution.arrow.maxRecordsPerBatch=2000, or use empty arrays",
        nulls,
        rows.num_rows,
        KEY,
        UNLIMITED,
    )
    return True
