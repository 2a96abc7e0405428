"""LeaderWaiters: requests that wait until shards have leaders.

    request                           waits until                                              for at most
    CreateTopics, CreatePartitions    the topics are in the image and their shards have leaders    5 s
    Metadata                          all shards of the requested topics have leaders              0.5 s

A client requests metadata as soon as its connection to a leader has ended.  If the response contains no leader, the
client retries only after a pause that is longer than most elections.  So Metadata waits, but only until half a second
after a request first found the shard without a leader: requests on one connection are handled in order, and a shard
that stays without a leader must not delay other requests repeatedly.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from tidemill.broker.machine import Machine
from tidemill.metadata.image import ClusterImage
from tidemill.model.shard import ShardId

TOPICS_MS_MAX: Final = 5_000  # after this time, the response is sent without leaders, and clients retry
# Metadata waits at most this long for the leader of a shard, from the time when a request first found no leader.
LEADERS_MS_MAX: Final = 500


class _Waiter:
    __slots__ = ("callback", "is_awaited", "shards", "timer", "topics")

    def __init__(
        self,
        callback: Callable[[], None],
        topics: list[str],
        shards: list[ShardId],
        is_awaited: Callable[[ShardId], bool],
    ) -> None:
        self.callback = callback
        self.topics = topics  # topics that have not been seen in the image yet
        self.shards = shards  # shards that have not been seen with a leader yet
        self.is_awaited = is_awaited  # whether the request still has to wait for a shard
        self.timer: Any = None


class LeaderView(Protocol):
    """What this broker knows about the cluster's topics and leaders."""

    @property
    def image(self) -> ClusterImage: ...

    def has_known_leader(self, shard_id: ShardId) -> bool:
        """Whether the shard has a leader, or will never have one."""
        ...

    def is_leaderless(self, shard_id: ShardId) -> bool:
        """Whether the shard exists and has no leader that clients can be sent to."""
        ...


class LeaderWaiters:
    def __init__(self, view: LeaderView, machine: Machine) -> None:
        self._view = view
        self._clock = machine.clock
        self._call_later = machine.call_later
        self._waiting: dict[_Waiter, None] = {}
        self._until_ms: dict[ShardId, int] = {}  # shard without a leader → time when Metadata stops waiting for it

    def wait_for_topics(self, topics: Sequence[str], callback: Callable[[], None]) -> None:
        """
        Call `callback` once: when all topics exist and their shards have leaders, possibly immediately, or else after
        `TOPICS_MS_MAX`.
        """

        def is_awaited(shard_id: ShardId) -> bool:
            return not self._view.has_known_leader(shard_id)

        self._wait(_Waiter(callback, [*topics], [], is_awaited), TOPICS_MS_MAX)

    def wait_for_leaders(self, shards: Iterable[ShardId], callback: Callable[[], None]) -> None:
        """
        Call `callback` once, possibly immediately: when each of `shards` either has a leader or was first found without
        one `LEADERS_MS_MAX` ago.
        """
        self._forget_led_shards()
        now_ms = self._clock.monotonic_ms()
        until_ms = {
            shard_id: self._until_ms.setdefault(shard_id, now_ms + LEADERS_MS_MAX)
            for shard_id in filter(self._view.is_leaderless, shards)
        }
        awaited = [shard_id for shard_id, deadline_ms in until_ms.items() if deadline_ms > now_ms]
        longest_ms = max((until_ms[shard_id] - now_ms for shard_id in awaited), default=0)
        self._wait(_Waiter(callback, [], awaited, self._view.is_leaderless), longest_ms)

    def check(self) -> None:
        """Release the requests that no longer need to wait.  Called when the image or a leader has changed."""
        self._forget_led_shards()
        for waiter in [*self._waiting]:
            if self._is_over(waiter):
                self._release(waiter)

    def stop(self) -> None:
        """Release every waiting request, so that none of them delays a clean stop."""
        for waiter in [*self._waiting]:
            self._release(waiter)

    def _wait(self, waiter: _Waiter, wait_ms: int) -> None:
        if self._is_over(waiter):
            waiter.callback()
            return
        waiter.timer = self._call_later(wait_ms / 1_000, lambda: self._release(waiter))
        self._waiting[waiter] = None

    def _is_over(self, waiter: _Waiter) -> bool:
        """Remove the topics and shards that `waiter` no longer needs to wait for.  Return whether none are left."""
        topics, shards, image = waiter.topics, waiter.shards, self._view.image
        while topics and (topic := image.topic(topics[-1])) is not None:
            topics.pop()
            shards += topic.shard_ids
        while shards and not waiter.is_awaited(shards[-1]):
            shards.pop()
        return not (topics or shards)

    def _release(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            del self._waiting[waiter]
            waiter.timer.cancel()
            waiter.callback()

    def _forget_led_shards(self) -> None:
        """Forget the deadline of each shard that has a leader: if it loses the leader, requests may wait again."""
        for shard_id in [it for it in self._until_ms if not self._view.is_leaderless(it)]:
            del self._until_ms[shard_id]
