"""Who waits until topics are there to be used: in the image here, and each of their shards with a leader."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidemill.metadata.image import ClusterImage
from tidemill.model.shard import ShardId

WAIT_MS: Final = 5_000  # then whoever asked is answered as things stand: clients ask again


class _Waiter:
    __slots__ = ("callback", "names", "shards", "timer")

    def __init__(self, names: list[str], callback: Callable[[], None]) -> None:
        self.names = names  # not seen in the image yet
        self.shards: list[ShardId] = []  # not seen led yet
        self.callback = callback
        self.timer: Any = None


class LedTopics:
    def __init__(
        self,
        *,
        image: Callable[[], ClusterImage],
        has_known_leader: Callable[[ShardId], bool],
        call_later: Callable[[float, Callable[[], None]], Any],
    ) -> None:
        """`has_known_leader`: the shard has a leader, or never will."""
        self._image = image
        self._has_known_leader = has_known_leader
        self._call_later = call_later
        self._waiting: dict[_Waiter, None] = {}

    def wait(self, topics: Sequence[str], callback: Callable[[], None]) -> None:
        """`callback` is called once, now if they are led, and after `WAIT_MS` at the latest."""
        waiter = _Waiter([*topics], callback)
        if self._is_over(waiter):
            callback()
            return
        waiter.timer = self._call_later(WAIT_MS / 1_000, lambda: self._release(waiter))
        self._waiting[waiter] = None

    def check(self) -> None:
        """The image, or who leads what, has changed."""
        for waiter in [*self._waiting]:
            if self._is_over(waiter):
                self._release(waiter)

    def stop(self) -> None:
        """Nobody waits for what will not come any more."""
        for waiter in [*self._waiting]:
            self._release(waiter)

    def _is_over(self, waiter: _Waiter) -> bool:
        """Takes from the waiter what need not be waited for any more."""
        names, shards, image = waiter.names, waiter.shards, self._image()
        while names and (topic := image.topic(names[-1])) is not None:
            names.pop()
            shards += topic.shard_ids
        while shards and self._has_known_leader(shards[-1]):
            shards.pop()
        return not (names or shards)

    def _release(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            del self._waiting[waiter]
            waiter.timer.cancel()
            waiter.callback()
