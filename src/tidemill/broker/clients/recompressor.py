"""Recompresses the batches of Produce requests on separate threads, within the memory limit for all client connections.

A small batch can decompress to many megabytes.  So the results count as bytes of requests in flight until their request
is answered, and no recompression begins while these bytes are at their bound (`ConnectionMemory`).  Once begun, a
recompression never waits for memory, so requests cannot block each other.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tidemill.batches.check import BatchProblem
from tidemill.batches.recompression import Recompression, recompress_all
from tidemill.broker.clients.connection_memory import ConnectionMemory
from tidemill.shard.jobs import Jobs

# The number of requests whose batches are recompressed at a time.  The results of each, up to `RECOMPRESSED_BYTES_MAX`,
# are not counted in `ConnectionMemory` until their recompression has ended.
RUNNING_MAX: Final = 4

Results = list[bytearray | BatchProblem]
_Waiting = tuple[Sequence[Recompression], Callable[[Results], None], Callable[[BaseException], None]]


class Recompressor:
    """
    Runs the recompressions of up to `RUNNING_MAX` requests at a time, and begins none while memory is short: this class
    implements `Holder`, so that `ConnectionMemory` calls `room_again` when memory becomes available.
    """

    unread_bytes: Final = 0

    def __init__(self, jobs: Jobs, memory: ConnectionMemory) -> None:
        self._jobs = jobs
        self._memory = memory
        self._waiting: deque[_Waiting] = deque()  # requests that wait, at most one per connection
        self._running = 0

    def submit(
        self,
        asked: Sequence[Recompression],
        done: Callable[[Results], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """
        Recompress the batches of one request.  Before `done` is called, the size of the results is passed to
        `ConnectionMemory.begin_work`; the caller of `submit` must later pass it to `end_work`.
        """
        self._waiting.append((asked, done, failed))
        self.room_again()

    def room_again(self) -> None:
        """Start the waiting recompressions for which there is enough memory."""
        while self._waiting and self._running < RUNNING_MAX:
            if not self._memory.may_receive(self):
                self._memory.wait(self)
                return
            asked, done, failed = self._waiting.popleft()
            self._running += 1
            self._jobs.submit(partial(recompress_all, asked), partial(self._done, done), partial(self._failed, failed))

    def give_up(self, reason: str) -> None:
        raise AssertionError("a recompressor holds neither frames nor responses")

    def _done(self, done: Callable[[Results], None], results: Results) -> None:
        self._running -= 1
        self._memory.begin_work(size_of(results))
        try:
            done(results)
        finally:
            self.room_again()

    def _failed(self, failed: Callable[[BaseException], None], error: BaseException) -> None:
        self._running -= 1
        try:
            failed(error)
        finally:
            self.room_again()


def size_of(results: Results) -> int:
    """Return the total size of the recompressed batches in bytes."""
    return sum(len(result) for result in results if not isinstance(result, BatchProblem))
