"""ReportedLoad: what the controller knows of the load of the cluster, from the LOAD sections of all brokers.

    LOAD sections, and the controller's own figures ─▶ brokers, shards ─▶ the planner's view
    leader table: another leader, or none ──────────▶ shards

Every broker has one; on brokers that are not the controller it is empty.  It begins empty in each term of the metadata
shard, because brokers send everything to a new controller.  A shard that has lost its leader keeps its figures.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from tidemill.broker.peers.leader_table import LeaderTable
from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.clock import Clock
from tidemill.model.shard import ShardId
from tidemill.peer.load import Load, ShardLoad
from tidemill.raft.voters import Membership
from tidemill.rebalance.view import ShardView


class LoadView(Protocol):
    """The part of `Cluster` that this module uses."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def me(self) -> ReplicaKey: ...

    @property
    def leaders(self) -> LeaderTable: ...

    @property
    def controller_term(self) -> int: ...

    def controller(self) -> ReplicaKey | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """The last report of a broker.  The rates are averages."""

    disk_total: int  # bytes
    disk_used: int  # bytes, of everything on that disk
    cpu: int  # per mille of a core
    bytes_in: int  # per second, from clients
    bytes_out: int  # per second, to clients
    at_ms: int  # when the controller received them, on its own clock


class ReportedLoad:
    def __init__(self, cluster: LoadView, clock: Clock) -> None:
        """`clock` counts only the time in which this broker ran; all times are taken from it."""
        self._cluster = cluster
        self._clock = clock
        self.brokers: dict[BrokerId, BrokerFigures] = {}
        self.shards: dict[ShardId, ShardView] = {}
        self._terms: dict[ShardId, int] = {}  # of the leaders that reported `shards`
        self._changed: dict[ShardId, None] = {}
        self._term = 0  # in which this broker is the controller; 0: it is not

    def voters(self, shard_id: ShardId) -> tuple[ReplicaKey, ...] | None:
        """Return the voters in force of a shard; None if no leader has told them yet."""
        shard = self.shards.get(shard_id)
        return None if shard is None or shard.membership is None else shard.membership.voters

    def take_changed(self) -> AbstractSet[ShardId]:
        """Return the shards whose views were added, replaced or removed since the last call, in the order of that."""
        changed, self._changed = self._changed, {}
        return changed.keys()

    def tick(self) -> None:
        """Forget everything if this broker is no longer the controller, or is it again.  Called at each tick."""
        cluster = self._cluster
        term = cluster.controller_term if cluster.controller() == cluster.me else 0
        if term == self._term:
            return
        self._term = term
        self._changed |= dict.fromkeys(self.shards)
        self.brokers.clear()
        self.shards.clear()
        self._terms.clear()

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """Forget the shards of deleted topics, and the figures of directories that are no longer registered."""
        if before.topics is not image.topics:
            gone = [topic for topic in before.topics.values() if topic.topic_id not in image.topics_by_id]
            for shard_id in chain.from_iterable(topic.shard_ids for topic in gone):
                self._terms.pop(shard_id, None)
                if self.shards.pop(shard_id, None) is not None:
                    self._changed[shard_id] = None
        if before.brokers is not image.brokers:
            for broker_id in [*self.brokers]:
                known, former = image.brokers.get(broker_id), before.brokers.get(broker_id)
                if known is None or former is None or known.voter != former.voter:
                    del self.brokers[broker_id]

    def leader_changed(self, shard_id: ShardId) -> None:
        """Note the present leader of a shard: the leader table has changed."""
        view = self.shards.get(shard_id)
        leader = self._leader(shard_id)
        if view is not None and view.leader != leader:
            self.shards[shard_id] = replace(view, leader=leader)
            self._changed[shard_id] = None

    def _leader(self, shard_id: ShardId) -> BrokerId | None:
        leader = self._cluster.leaders.leader(shard_id)
        return None if leader is None else leader.broker_id

    def report(self, sender: ReplicaKey, load: Load) -> None:
        """Take the figures that a broker has sent, or this broker itself if it is the controller."""
        self.tick()  # the term may have begun since the last tick
        image = self._cluster.image
        known = image.brokers.get(sender.broker_id)
        if not self._term or known is None or known.voter != sender:
            return
        now_ms = self._clock.monotonic_ms()
        if load.broker is not None:
            it = load.broker
            self.brokers[sender.broker_id] = BrokerFigures(
                disk_total=it.disk_total,
                disk_used=it.disk_used,
                cpu=it.cpu,
                bytes_in=it.bytes_in,
                bytes_out=it.bytes_out,
                at_ms=now_ms,
            )
        for shard in load.shards:
            if shard.shard_id in image.shards and shard.term >= self._terms.get(shard.shard_id, 0):
                self._terms[shard.shard_id] = shard.term
                self.shards[shard.shard_id] = self._view(shard, now_ms)
                self._changed[shard.shard_id] = None

    def _view(self, shard: ShardLoad, now_ms: int) -> ShardView:
        """Return the view of a report.  A leader that has not measured averages yet keeps those of the former one."""
        former = self.shards.get(shard.shard_id)
        is_measured = shard.is_measured or former is None
        view = ShardView(
            size=shard.size,
            bytes_in=shard.bytes_in if shard.is_measured else 0,
            cpu=shard.cpu if shard.is_measured else 0,
            membership=Membership(shard.voters, shard.learners),
            in_sync=shard.in_sync,
            behind={it.broker_id: missing for it, missing in zip(shard.learners, shard.behind, strict=True)},
            leader=self._leader(shard.shard_id),
            figures_at_ms=now_ms if shard.is_measured else 0,
        )
        if is_measured or former is None:
            return view
        return replace(view, bytes_in=former.bytes_in, cpu=former.cpu, figures_at_ms=former.figures_at_ms)
