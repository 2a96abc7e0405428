"""A bounded queue between the threads that read record batches and the caller that takes them."""

from collections import deque
from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class ReadAhead:
    """
    Holds at most `bytes_max` bytes of rows, or one larger record batch.

    Its lock is reentrant: the garbage collector may call `close` in any thread, also in one that is in a method.
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
        """The size of the rows that wait for the caller."""
        return self._bytes

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put(self, rows: "pa.RecordBatch") -> bool:
        """Add rows; wait while there is no room.  Return whether more rows are wanted."""
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
        """Note that a thread will add no more rows; `failure` is the reason if it has not read all of its rows."""
        with self._changed:
            self._producers -= 1
            if failure is not None and self._failure is None:
                self._failure = failure
            self._changed.notify_all()

    def take(self) -> "pa.RecordBatch | None":
        """
        Return the next rows, or None at the end; wait for them if there are none yet.

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
        """Drop the rows that wait, and let the threads end."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._bytes = 0
            self._changed.notify_all()
