"""Waiters for entries to reach a level of durability, in the order of the log."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress

Waiter = Callable[[bool], None]
"""Called once, on the event loop: with True when the entry has got there, with False when its outcome is unknown."""


class CommitWaiters:
    """A queue: log indexes only grow between truncations, so the first waiter is always the next to wake."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Waiter]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, index: int, waiter: Waiter) -> None:
        """`index` may be lower than the last one: a duplicate waits for its original.  The queue keeps its order."""
        self._waiting.append((index, waiter))

    def remove(self, index: int, waiter: Waiter) -> None:
        """Forget a waiter whose request has timed out.  It has usually waited longest, so the search is short."""
        with suppress(ValueError):
            self._waiting.remove((index, waiter))

    def wake(self, index: int) -> None:
        """
        Call the waiters up to `index` with True.  Exceptions of waiters are raised as a group, after all were called.
        """
        waiting = self._waiting
        if not waiting or waiting[0][0] > index:
            return
        due = []
        while waiting and waiting[0][0] <= index:
            due.append(waiting.popleft()[1])
        _call(due, True)

    def fail(self) -> None:
        """Call all waiters with False: leadership is lost, or the broker stops."""
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
