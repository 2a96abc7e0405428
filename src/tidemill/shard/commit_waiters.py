"""A queue of waiters, each of which waits until its entry has reached a given level of durability."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress

Waiter = Callable[[bool], None]
"""Called once, on the event loop: with True when the entry is durable enough, with False if its outcome is unknown."""


class CommitWaiters:
    """
    A queue in log order: log indexes only increase between truncations, so the first waiter is always the next to wake.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Waiter]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, index: int, waiter: Waiter) -> None:
        """
        Add `waiter` to the end of the queue, even if `index` is lower than the last index in it: a duplicate batch
        waits for the entry of the original.
        """
        self._waiting.append((index, waiter))

    def remove(self, index: int, waiter: Waiter) -> None:
        """Remove a waiter whose request has timed out.  It is usually the oldest waiter, so the search is short."""
        with suppress(ValueError):
            self._waiting.remove((index, waiter))

    def wake(self, index: int) -> None:
        """
        Call the waiters up to `index` with True.  Exceptions that waiters raise are raised as a group after the last
        call.
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
