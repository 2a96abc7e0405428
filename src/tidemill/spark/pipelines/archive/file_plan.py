"""Decides how many files a batch is written to, from estimates of its bytes.

The size of a Parquet file is known only after it is written.  The estimate is the stored bytes of the records, which
the connector samples, times the ratio of file bytes to stored bytes in the previous batch.  The size of the first
batch's files may therefore differ from the target size, because Parquet and the topic compress the records
differently; that of later files may differ because the data changes between batches.
"""

import math
from dataclasses import dataclass
from typing import Final

from tidemill.spark.pipelines.archive.batch_entry import BatchEntry

TASKS_MAX: Final = 1_000  # each task writes at least one file: a tiny target size must not create an endless job
_MEANINGFUL_BYTES: Final = 1 << 20  # the ratio of a smaller batch is not used: its footers may be larger than its rows
_RATIOS: Final = (0.02, 50.0)  # outside these bounds, the estimate of stored bytes must be wrong


@dataclass(frozen=True, slots=True)
class FilePlan:
    task_count: int
    rows_per_file_max: int
    estimated_bytes: int


def plan_files(row_count: int, stored_bytes: int, target_bytes: int, last: BatchEntry | None) -> FilePlan:
    """Return the number of writing tasks, and the number of rows after which a task begins another file."""
    estimated = math.ceil(stored_bytes * _ratio(last))
    tasks = min(max(math.ceil(estimated / target_bytes), 1), TASKS_MAX)
    row_bytes = estimated / row_count if row_count else 1.0
    # A task may get more than its share of the rows.  Up to a quarter more still go into one file, because a second
    # file would be very small.
    rows = math.ceil(1.25 * target_bytes / max(row_bytes, 1e-3))
    return FilePlan(tasks, max(rows, 1), estimated)


def _ratio(last: BatchEntry | None) -> float:
    if last is None or last.stored_bytes < _MEANINGFUL_BYTES:
        return 1.0
    least, most = _RATIOS
    return min(max(last.bytes / last.stored_bytes, least), most)
