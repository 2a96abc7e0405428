"""TickRounds: decides at which partitions a tick looks: at those that have moved lately, and at some of the rest.

A tick that looked at ten thousand idle partitions would stop the event loop several times a second.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

ROUND_TICKS: Final = 32  # in which all partitions are looked at
AT_ONCE_MIN: Final = 64  # partitions that do not move are looked at in each tick if there are no more
MOVED_MS: Final = 2_000  # how long a partition is looked at in each tick after it has moved

K = TypeVar("K", bound=Hashable)


class TickRounds(Generic[K]):
    def __init__(self, every: Callable[[], Iterable[K]]) -> None:
        """`every` returns all partitions.  It is called once a round."""
        self._every = every
        self._moved: dict[K, int] = {}  # the monotonic time of the last move
        self._left: list[K] = []  # in this round
        self._count = 0  # of those in each tick of this round

    def moved(self, key: K, now_ms: int) -> None:
        """Take note that a partition has moved, or may have work at the next tick."""
        self._moved[key] = now_ms

    def tick(self, now_ms: int) -> list[K]:
        """Return the partitions to look at now.  Some may have been closed since the round began."""
        self._moved = {key: at_ms for key, at_ms in self._moved.items() if now_ms - at_ms < MOVED_MS}
        if not self._left:
            self._left = [*self._every()]
            self._count = max(-(-len(self._left) // ROUND_TICKS), AT_ONCE_MIN)
        part = self._left[-self._count :]
        del self._left[-self._count :]
        return [*dict.fromkeys((*self._moved, *part))]
