"""Who waits for an entry to be committed, or durable here, in the order of the log."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress

Waiter = Callable[[bool], None]
"""Called once, on the loop: True when the entry is there to stay, False when that is not known any more."""


class CommitWaiters:
    """Log indexes only grow between truncations, so the first in line is always the next to be woken."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Waiter]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, index: int, waiter: Waiter) -> None:
        """`index` may lie before the last one added (a duplicate waits for its original); it is woken in line then."""
        self._waiting.append((index, waiter))

    def remove(self, index: int, waiter: Waiter) -> None:
        """It waits no more.  Who gives up has mostly waited for longest, and stands at the front."""
        with suppress(ValueError):
            self._waiting.remove((index, waiter))

    def wake(self, index: int) -> None:
        """
        Everything up to `index` is there to stay.  A waiter that raises keeps nobody else waiting: all are called
        first.
        """
        waiting = self._waiting
        if not waiting or waiting[0][0] > index:
            return
        due = []
        while waiting and waiting[0][0] <= index:
            due.append(waiting.popleft()[1])
        _call(due, True)

    def fail(self) -> None:
        """Leadership is lost, or the broker stops: the outcome of what waits is not known."""
        waiting, self._waiting = self._waiting, deque()
        _call([waiter for _, waiter in waiting], False)


def _call(waiters: list[Waiter], is_there: bool) -> None:
    failures: list[Exception] = []
    for waiter in waiters:
        try:
            waiter(is_there)
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup("waiters for an entry failed", failures)
