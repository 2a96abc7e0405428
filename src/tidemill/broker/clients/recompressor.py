"""Recompresses the batches of Produce requests on separate threads, within the memory limit for all client connections.

A small batch can decompress to many megabytes.  So the results count as bytes of requests in flight until their request
is answered, and no recompression begins while these bytes are at their bound (`ConnectionMemory`).  Once begun, a
recompression never waits for memory, so requests cannot block each other.

What a request will take is known only when it has been decompressed.  Each begins as a small one; if it takes more than
`SMALL_BYTES_MAX`, it is given up and takes turns with the other large ones, while small ones overtake it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tidemill.batches.check import BatchProblem
from tidemill.batches.recompression import SMALL_BYTES_MAX, Recompression, recompress_all
from tidemill.broker.clients.connection_memory import ConnectionMemory
from tidemill.shard.jobs import Jobs

# The number of requests whose batches are recompressed at a time, of which at most one is large.  Its results, up to
# `RECOMPRESSED_BYTES_MAX`, are not counted in `ConnectionMemory` until its recompression has ended.
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
        self._large: deque[_Waiting] = deque()  # those that are known to be large
        self._running = 0
        self._is_large_running = False

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
        while self._running < RUNNING_MAX and (self._may_begin_large or self._waiting):
            if not self._memory.may_receive(self):
                self._memory.wait(self)
                return
            is_large = self._may_begin_large  # first: it was there before those that wait
            self._begin((self._large if is_large else self._waiting).popleft(), is_large=is_large)

    @property
    def _may_begin_large(self) -> bool:
        return bool(self._large) and not self._is_large_running

    def _begin(self, request: _Waiting, *, is_large: bool) -> None:
        self._running += 1
        self._is_large_running |= is_large

        def ended() -> None:
            self._running -= 1
            self._is_large_running &= not is_large

        def done(results: Results | None) -> None:
            ended()
            try:
                if results is None:
                    self._large.append(request)
                else:
                    self._memory.begin_work(size_of(results))
                    request[1](results)
            finally:
                self.room_again()

        def failed(error: BaseException) -> None:
            ended()
            try:
                request[2](error)
            finally:
                self.room_again()

        bytes_max = None if is_large else SMALL_BYTES_MAX
        self._jobs.submit(partial(recompress_all, request[0], bytes_max), done, failed)

    def give_up(self, reason: str) -> None:
        raise AssertionError("a recompressor holds neither frames nor responses")


def size_of(results: Results) -> int:
    """Return the total size of the recompressed batches in bytes."""
    return sum(len(result) for result in results if not isinstance(result, BatchProblem))
