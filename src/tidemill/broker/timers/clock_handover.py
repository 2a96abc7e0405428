"""Hands the leadership of timer shards over when this broker's wall clock is wrong.

The release clock keeps records from being early or late whatever one clock says.  But delays count from the leader's
own clock as far as it is ahead of the release clock, so a leader whose clock is wrong makes them longer.
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.clock import Clock
from tidemill.telemetry.event_log import EventLog

WRONG_MS: Final = 1_000  # how far the leader's clock may be from the release clock
RIGHT_MS: Final = 500  # how far that of its successor may be
STAYS_WRONG_MS: Final = 2_000  # before that counts: what busy brokers say of their clocks comes late
PAUSE_MS: Final = 30_000  # between two attempts for a shard: the successor may be refused, or hand it back


class LedShard(Protocol):
    @property
    def voters(self) -> Collection[ReplicaKey]: ...

    @property
    def release_limit(self) -> int | None: ...

    def transfer_leadership(self, to: ReplicaKey) -> bool: ...


class ClockHandover:
    def __init__(self, clock: Clock, events: EventLog) -> None:
        self._clock = clock
        self._events = events
        self._wrong_since: dict[LedShard, int] = {}
        self._tried_at: dict[LedShard, int] = {}

    def tick(self, led: Collection[LedShard], offsets: Mapping[ReplicaKey, int]) -> None:
        """
        Begin the transfers that are due.  `offsets` are how many ms the other brokers' clocks are ahead of this one's.
        """
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        self._tried_at = {shard: at for shard, at in self._tried_at.items() if shard in led}
        limits = {shard: limit for shard in led if (limit := shard.release_limit) is not None}
        wrong = {shard: limit for shard, limit in limits.items() if abs(wall_ms - limit) > WRONG_MS}
        self._wrong_since = {shard: self._wrong_since.get(shard, now_ms) for shard in wrong}
        for shard, limit in wrong.items():
            if now_ms - self._wrong_since[shard] < STAYS_WRONG_MS:
                continue
            if now_ms - self._tried_at.get(shard, now_ms - PAUSE_MS) < PAUSE_MS:
                continue
            right = {
                voter: abs(wall_ms + offsets[voter] - limit)
                for voter in shard.voters
                if voter in offsets and abs(wall_ms + offsets[voter] - limit) <= RIGHT_MS
            }
            if right:
                self._tried_at[shard] = now_ms
                successor = min(right, key=lambda voter: right[voter])
                if shard.transfer_leadership(successor):
                    self._events.warning(
                        "clock is wrong",
                        ahead_ms=wall_ms - limit,
                        then=f"broker {successor.broker_id} leads instead",
                    )
