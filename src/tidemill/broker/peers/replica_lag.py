"""Finds the out-of-sync replicas of the shards that this broker leads.  Peers receive the list and show it to clients.
The controller receives the voters that are in sync (`broker/load`).

A replica is in sync if, at some time within the last `LAG_MS`, its disk had everything that had been committed one tick
earlier.  A replica that is not a voter, is damaged, is installing a snapshot, or is on a dead broker is always out of
sync.  Only the leader knows this, because a lagging replica learns about commits late.  The list has planned replicas
and, while they are on their way, those that were planned before (`broker/peers/leaving_replicas`).
"""

from typing import Final, Protocol

from tidemill.broker.peers.leaving_replicas import to_go
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.image import Shard as PlannedShard
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.clock import Clock
from tidemill.model.shard import ShardId
from tidemill.shard.shard import Shard

LAG_MS: Final = 30_000  # Kafka's `replica.lag.time.max.ms`
RESTED_TICKS: Final = 8  # idle shards, of which there may be a thousand, are checked only every eighth tick

Lagging = tuple[ShardId, BrokerId]


class _Led:
    """A shard that this broker leads."""

    __slots__ = ("commit_index", "in_sync", "is_at_rest", "lagging", "near_at", "shard")

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.commit_index = shard.replica.commit_index  # the commit index at the last check
        # Time of the last check at which each replica had everything that was committed at the check before it.
        self.near_at: dict[ReplicaKey, int] = {}
        self.lagging: list[Lagging] = []
        self.in_sync = frozenset((shard.replica.me.broker_id,))  # the voters in force that are in sync, planned or not
        self.is_at_rest = False  # whether every replica that can be in sync has everything that is committed


class LagView(Protocol):
    """What this broker knows about replicas, its own and those on other brokers."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def shards(self) -> dict[ShardId, Shard]:
        """The shards that have a replica on this broker, by id."""
        ...

    def alive_peers(self) -> frozenset[ReplicaKey]: ...


class ReplicaLag:
    def __init__(self, view: LagView, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._led: dict[ShardId, _Led] = {}
        self._checks = 0
        self._seen_image: ClusterImage | None = None
        self._seen_alive: frozenset[ReplicaKey] = frozenset()
        self._reported: tuple[Lagging, ...] = ()
        self._changed: dict[ShardId, None] = {}
        self.lagging: frozenset[Lagging] = frozenset()
        """The result of the last check."""

    def serving_changed(self, shard: Shard) -> None:
        """Start or stop checking `shard`: this broker has started or stopped serving it as its leader."""
        self._led.pop(shard.shard_id, None)
        if shard.is_serving:
            self._led[shard.shard_id] = _Led(shard)

    def in_sync(self, shard_id: ShardId) -> frozenset[BrokerId]:
        """
        Return the voters in force of a shard that were in sync at the last check, with the leader; none if this broker
        does not lead it.
        """
        led = self._led.get(shard_id)
        return frozenset() if led is None else led.in_sync

    def take_changed(self) -> list[ShardId]:
        """Return the shards for which `in_sync` has changed since the last call."""
        changed, self._changed = self._changed, {}
        return [*changed]

    def check(self) -> tuple[Lagging, ...]:
        """
        Check all shards and return the out-of-sync replicas in ascending order.  As long as they do not change, the
        same object is returned.
        """
        now_ms = self._clock.monotonic_ms()
        image, alive = self._view.image, self._view.alive_peers()
        self._checks += 1
        is_rest_over = image is not self._seen_image or alive != self._seen_alive or self._checks % RESTED_TICKS == 0
        self._seen_image, self._seen_alive = image, alive
        if is_rest_over:
            shards = self._view.shards
            self._led = {shard_id: led for shard_id, led in self._led.items() if shards.get(shard_id) is led.shard}
        has_news = is_rest_over
        for shard_id, led in self._led.items():
            if is_rest_over or not led.is_at_rest or led.shard.needs_tick:
                before = led.lagging
                planned = image.shards.get(shard_id)
                self._check_shard(led, planned, alive, now_ms)
                has_news = has_news or led.lagging != before
        if has_news:
            lagging = tuple(sorted(it for led in self._led.values() for it in led.lagging))
            if lagging != self._reported:
                self._reported, self.lagging = lagging, frozenset(lagging)
        return self._reported

    def _check_shard(self, led: _Led, shard: PlannedShard | None, alive: frozenset[ReplicaKey], now_ms: int) -> None:
        shard_id, replica = led.shard.shard_id, led.shard.replica
        planned = () if shard is None else shard.replicas
        members = replica.status().members
        voters = replica.voters
        led.lagging = []
        led.is_at_rest = True
        in_sync = [replica.me.broker_id]
        for voter in planned if planned == voters else dict.fromkeys((*planned, *voters)):
            if voter == replica.me:
                continue
            member = members.get(voter)
            counts = member is not None and not (member.is_damaged or member.is_installing)
            if member is None or not counts or voter not in voters or voter not in alive:
                led.near_at.pop(voter, None)
                if voter in planned:
                    led.lagging.append((shard_id, voter.broker_id))
                continue
            if member.match_index >= led.commit_index:
                led.near_at[voter] = now_ms
            if member.match_index < replica.commit_index:
                led.is_at_rest = False
            near_at = led.near_at.get(voter)
            if near_at is not None and now_ms - near_at <= LAG_MS:
                in_sync.append(voter.broker_id)
            elif voter in planned:
                led.lagging.append((shard_id, voter.broker_id))
        if shard is not None and shard.previous and led.lagging:
            late = {broker_id for _, broker_id in led.lagging}
            gone = [it.broker_id for it in to_go(shard, late.__contains__) if it.broker_id not in in_sync]
            led.lagging += [(shard_id, broker_id) for broker_id in gone]
        led.commit_index = replica.commit_index
        if len(in_sync) != len(led.in_sync) or not led.in_sync.issuperset(in_sync):
            led.in_sync = frozenset(in_sync)
            self._changed[shard_id] = None
