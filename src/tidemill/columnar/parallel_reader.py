"""Reads what a plan contains on several threads, ahead of the caller and within a memory limit.

Each thread has its own connections.  It reads one partition to its end before it begins the next one, so the rows of a
partition stay in offset order.  The decoder and the sockets release the GIL, so that one thread decodes while others
receive and while the caller works.
"""

import atexit
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Final

from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError
from tidemill.columnar.data_loss import DataLossError
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.read_ahead import ReadAhead
from tidemill.columnar.source_options import SourceOptions
from tidemill.columnar.work_reader import Work, WorkReader

if TYPE_CHECKING:
    import pyarrow as pa

THREADS_MAX: Final = 4
READ_AHEAD_BYTES_MAX: Final = 32 << 20  # decoded rows that wait for the caller
GROUP_BYTES_MAX: Final = 16 << 20  # per record batch: each thread holds one in addition to the queued batches
_CLOSE_SECONDS_MAX: Final = 5  # a thread whose broker does not respond ends later, at its request timeout


class ParallelReader:
    """Reads the given columns of `works`, once.  The threads start when the first record batch is requested."""

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        works: Sequence[Work],
        *,
        threads_max: int = THREADS_MAX,
        read_ahead_bytes_max: int = READ_AHEAD_BYTES_MAX,
    ) -> None:
        self._options = options
        self._columns = columns
        self._pending = deque(_by_partition(works))
        count = min(len(self._pending), threads_max)
        self._read_ahead = ReadAhead(read_ahead_bytes_max, producers=count)
        # The threads must not keep the interpreter alive if the caller stops before it has taken all rows.
        self._threads = [Thread(target=self._read, name=f"tidemill-read-{n}", daemon=True) for n in range(count)]

    def record_batches(self) -> Iterator["pa.RecordBatch"]:
        """
        Yield all rows.  The threads end and their connections are closed with the iterator, even if it is closed early.

        Raise DataLossError if records are missing and the options say that data loss fails the read, and ClientError if
        a read fails.
        """
        atexit.register(self.close)
        try:
            for thread in self._threads:
                thread.start()
            while (rows := self._read_ahead.take()) is not None:
                yield rows
        finally:
            self.close()

    def close(self) -> None:
        """
        Make the threads end and close their connections.

        Wait for them, but not for a broker that does not respond.
        """
        atexit.unregister(self.close)
        self._read_ahead.close()
        ends_at = time.monotonic() + _CLOSE_SECONDS_MAX
        for thread in self._threads:
            if thread.is_alive() and thread is not current_thread():
                thread.join(max(ends_at - time.monotonic(), 0))

    def _read(self) -> None:
        """Read one partition after another.  Each thread runs this method."""
        failure: BaseException | None = None
        try:
            with closing(ClusterMetadata(self._options.connection.reached())) as cluster:
                reader = WorkReader(self._options, self._columns, cluster=cluster, group_bytes_max=GROUP_BYTES_MAX)
                while (works := self._next_partition()) and all(self._read_work(reader, work) for work in works):
                    pass
        except (ClientError, DataLossError) as error:
            # The error message states the fix.  A traceback of this thread would only hide it, and would keep
            # connections alive.
            error.__cause__ = error.__context__ = None
            failure = error.with_traceback(None)
        except BaseException as error:
            failure = error
        self._read_ahead.producer_done(failure)

    def _next_partition(self) -> list[Work] | None:
        try:
            return self._pending.popleft()
        except IndexError:
            return None

    def _read_work(self, reader: WorkReader, work: Work) -> bool:
        """Read records into the queue.  Return whether the caller wants more rows."""
        return all(self._read_ahead.put(rows) for rows in reader.record_batches(work))


def _by_partition(works: Sequence[Work]) -> list[list[Work]]:
    """
    Return the work of each partition, the largest partition first.  If it were last, it would keep a single thread
    busy at the end.
    """
    by_partition: dict[tuple[str, int], list[Work]] = {}
    for one in works:
        by_partition.setdefault((one.topic, one.partition), []).append(one)
    return sorted(by_partition.values(), key=lambda parts: sum(map(_size, parts)), reverse=True)


def _size(work: Work) -> int:
    """Return the number of offsets; 0 where it is not known how much waits."""
    return work.size if isinstance(work, OffsetRange) else 0
