"""Reads the acquired records of one Spark partition as Arrow record batches.  It runs in executors.

The bytes are fetched by offset.  A fetch returns whole batches, which may contain records that another consumer holds;
these are left out.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.range_reader import RangeReader
from tidemill.columnar.receipts import receipt_parts
from tidemill.columnar.share_work import AcquiredRange, ShareWork
from tidemill.columnar.source_options import SourceOptions

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

DELIVERY_COUNT: Final = "deliveryCount"
RECEIPT: Final = "receipt"
_OFFSET: Final = "offset"
_GAP_MAX: Final = 1_000  # offsets between two ranges that one fetch reads and drops, to save a round trip


class AcquiredReader:
    """Reads the given columns, in the given order."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._columns = columns
        read = [name for name in columns if name not in (DELIVERY_COUNT, RECEIPT)]
        self._reader = RangeReader(options, read if _OFFSET in read else [*read, _OFFSET])

    def record_batches(self, work: ShareWork) -> Iterator["pa.RecordBatch"]:
        """Yield the acquired records.  Those that retention has removed meanwhile are left out."""
        for ranges in _spans(work.ranges):
            chosen = _Chosen(work, ranges, self._columns)
            span = OffsetRange(work.topic, work.partition, ranges[0].first, ranges[-1].end, work.topic_id)
            for rows in self._reader.record_batches(span):
                kept = chosen.rows(rows)
                if kept.num_rows:
                    yield kept


class _Chosen:
    """Chooses the acquired records among those that are read, and adds their columns."""

    def __init__(self, work: ShareWork, ranges: Sequence[AcquiredRange], columns: Sequence[str]) -> None:
        import numpy as np
        import pyarrow as pa

        self._columns = columns
        self._firsts = np.array([one.first for one in ranges], dtype=np.int64)
        self._ends = np.array([one.end for one in ranges], dtype=np.int64)
        self._counts = pa.array([one.delivery_count for one in ranges], pa.int32())
        texts = [receipt_parts(work.topic, work.partition, one.member, work.group) for one in ranges]
        self._before = texts[0][0]
        self._after = pa.array([after for _, after in texts], pa.string())

    def rows(self, rows: "pa.RecordBatch") -> "pa.RecordBatch":
        import numpy as np
        import pyarrow as pa

        offsets = rows.column(_OFFSET).to_numpy()
        at = np.searchsorted(self._firsts, offsets, side="right") - 1
        is_acquired = (at >= 0) & (offsets < self._ends[at])
        if not is_acquired.all():
            rows, at = rows.filter(pa.array(is_acquired)), at[is_acquired]
        return pa.RecordBatch.from_arrays([self._column(rows, name, at) for name in self._columns], list(self._columns))

    def _column(self, rows: "pa.RecordBatch", name: str, at: "np.ndarray") -> "pa.Array":
        import pyarrow as pa
        import pyarrow.compute as pc

        if name == DELIVERY_COUNT:
            return self._counts.take(pa.array(at))
        if name == RECEIPT:
            offsets = rows.column(_OFFSET).cast(pa.string())
            return pc.binary_join_element_wise(self._before, offsets, self._after.take(pa.array(at)), "")
        return rows.column(name)


def _spans(ranges: Sequence[AcquiredRange]) -> Iterator[list[AcquiredRange]]:
    """Group ranges that are near to each other."""
    span: list[AcquiredRange] = []
    for one in ranges:
        if span and one.first - span[-1].end > _GAP_MAX:
            yield span
            span = []
        span.append(one)
    if span:
        yield span
