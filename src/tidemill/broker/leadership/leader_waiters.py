"""Who asks for leaders while one is missing is answered when there is one, or when it has been missing for a while.

A client asks as soon as its connection to a leader has ended.  Told that there is none it asks again after a pause of
its own (librdkafka: up to a second), and an election takes a tenth of that.  Answers of one connection leave in order,
so a shard that stays without a leader holds nobody up again.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tidemill.model.clock import Clock
from tidemill.model.shard import ShardId

WAIT_MS: Final = 500  # since somebody asked first


class _Waiter:
    __slots__ = ("callback", "shards", "timer")

    def __init__(self, shards: list[ShardId], callback: Callable[[], None]) -> None:
        self.shards = shards  # not seen led yet
        self.callback = callback
        self.timer: Any = None


class LeaderWaiters:
    def __init__(
        self,
        *,
        is_missing: Callable[[ShardId], bool],
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], Any],
    ) -> None:
        """`is_missing`: the shard has no leader, and may come to have one."""
        self._is_missing = is_missing
        self._clock = clock
        self._call_later = call_later
        self._until_ms: dict[ShardId, int] = {}  # by shards that were asked for and had none
        self._waiting: dict[_Waiter, None] = {}

    def wait(self, shards: Iterable[ShardId], callback: Callable[[], None]) -> None:
        """`callback` is called once, now if there is nothing to wait for."""
        self._forget()
        now_ms = self._clock.monotonic_ms()
        until_ms = {
            shard_id: self._until_ms.setdefault(shard_id, now_ms + WAIT_MS)
            for shard_id in filter(self._is_missing, shards)
        }
        awaited = [shard_id for shard_id, it in until_ms.items() if it > now_ms]
        if not awaited:
            callback()
            return
        waiter = _Waiter(awaited, callback)
        seconds = (max(until_ms[shard_id] for shard_id in awaited) - now_ms) / 1_000
        waiter.timer = self._call_later(seconds, lambda: self._release(waiter))
        self._waiting[waiter] = None

    def check(self) -> None:
        """Who leads what has changed."""
        self._forget()
        for waiter in [*self._waiting]:
            shards = waiter.shards
            while shards and not self._is_missing(shards[-1]):
                shards.pop()
            if not shards:
                self._release(waiter)

    def stop(self) -> None:
        """Nobody waits for what will not come any more."""
        for waiter in [*self._waiting]:
            self._release(waiter)

    def _forget(self) -> None:
        """When they are missing again it is another story."""
        for shard_id in [it for it in self._until_ms if not self._is_missing(it)]:
            del self._until_ms[shard_id]

    def _release(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            del self._waiting[waiter]
            waiter.timer.cancel()
            waiter.callback()
