"""A bounded queue between the threads that read record batches and the caller that takes them."""

from collections import deque
from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class ReadAhead:
    """
    Holds at most `bytes_max` bytes of rows, or a single record batch that is larger.

    The lock is reentrant, because the garbage collector may call `close` in any thread, even in one that holds the
    lock.
    """

    def __init__(self, bytes_max: int, *, producers: int) -> None:
        """`producers` is the number of threads that will call `producer_done`."""
        self._bytes_max = bytes_max
        self._changed = Condition()
        self._waiting: deque[tuple[pa.RecordBatch, int]] = deque()
        self._bytes = 0
        self._producers = producers
        self._failure: BaseException | None = None
        self._is_closed = False

    @property
    def bytes(self) -> int:
        """The size of the queued rows in bytes."""
        return self._bytes

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put(self, rows: "pa.RecordBatch") -> bool:
        """Add rows, waiting while the queue is full.  Return whether the caller wants more rows."""
        size = rows.nbytes
        with self._changed:
            while self._bytes and self._bytes + size > self._bytes_max and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return False
            self._waiting.append((rows, size))
            self._bytes += size
            self._changed.notify_all()
            return True

    def producer_done(self, failure: BaseException | None = None) -> None:
        """Record that a thread will add no more rows; `failure` is the error if it could not read all of its rows."""
        with self._changed:
            self._producers -= 1
            if failure is not None and self._failure is None:
                self._failure = failure
            self._changed.notify_all()

    def take(self) -> "pa.RecordBatch | None":
        """
        Return the next rows, or None at the end.  Wait while the queue is empty.

        Raise the first failure of a thread, even if rows are waiting.
        """
        with self._changed:
            while not self._waiting and self._producers and self._failure is None and not self._is_closed:
                self._changed.wait()
            if self._failure is not None:
                raise self._failure
            if not self._waiting:
                return None
            rows, size = self._waiting.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return rows

    def close(self) -> None:
        """Drop the queued rows, and make the threads end."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._bytes = 0
            self._changed.notify_all()
