"""BrokerWatch: how long each broker has been silent or live, as the present controller knows it.

    heartbeats of all brokers ─▶ `observe`, a few times a second ─▶ `Silence` of each broker ─▶ `views`

A broker is silent if no live broker hears it, the controller included: one with a bad network of its own hears few
others.  What a former controller recorded counts, so that a broker that is SILENT need not begin its silence anew.

Peers do not tell whether they hear a directory that is admitted and not registered.  Only the controller's own hearing
counts for those: they are empty, so that replacing one costs nothing.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple, Protocol

from tidemill.metadata.image import Broker, ClusterImage
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.broker_state import Presence
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.silence import Silence
from tidemill.rebalance.view import BrokerView


class ClusterHearing(Protocol):
    """The part of `Cluster` that this module uses."""

    def live(self) -> frozenset[BrokerId]:
        """Return this broker and the brokers that it hears."""
        ...

    def eligible_leaders(self) -> frozenset[BrokerId]:
        """Return the live brokers that may lead: those that serve clients and are not draining their leadership."""
        ...

    def unheard_by_peers(self) -> Mapping[BrokerId, frozenset[BrokerId]]:
        """Return the brokers that each live peer does not hear, by its last heartbeat."""
        ...

    def has(self, voter: ReplicaKey) -> bool:
        """Return whether `voter` is this broker or a live peer, with the same directory."""
        ...


class MeasuredBroker(Protocol):
    """What a broker has told about its machine."""

    @property
    def disk_total(self) -> int: ...
    @property
    def disk_used(self) -> int: ...
    @property
    def cpu(self) -> int: ...
    @property
    def at_ms(self) -> int: ...


class _Watched(NamedTuple):
    key: ReplicaKey
    silence: Silence


class BrokerWatch:
    def __init__(self, cluster: ClusterHearing, broker_id: BrokerId) -> None:
        """`broker_id` is the controller's own."""
        self._cluster = cluster
        self._me = broker_id
        self._watched: dict[BrokerId, _Watched] = {}

    def observe(self, image: ClusterImage, policy: Policy, now_ms: int) -> None:
        """Note which brokers are heard now.  Forget those that have left the image or have a new directory."""
        heard_by = self._heard_by(image)
        watched = {}
        for broker_id, broker in image.brokers.items():
            known = self._watched.get(broker_id)
            if known is None or known.key != broker.voter:
                known = _Watched(broker.voter, _silence(broker, policy, now_ms))
            is_heard = self._cluster.has(broker.voter) or heard_by[broker_id] > 0
            known.silence.observe(is_heard, now_ms, active_after_ms=policy.active_after_ms)
            watched[broker_id] = known
        self._watched = watched

    def views(
        self,
        image: ClusterImage,
        figures: Mapping[BrokerId, MeasuredBroker],
        index: ShardIndex,
        policy: Policy,
        now_ms: int,
    ) -> dict[BrokerId, BrokerView]:
        """
        Return what the planner has to know about each broker.  One that is not registered and carries nothing is left
        out: it may never have started, and is not silent.
        """
        self.observe(image, policy, now_ms)
        able, heard_by = self._cluster.eligible_leaders(), self._heard_by(image)
        views = {}
        for broker_id, broker in image.brokers.items():
            if not broker.is_registered and not index.carried(broker_id):
                continue
            silence, measured = self._watched[broker_id].silence, figures.get(broker_id)
            is_live = self._cluster.has(broker.voter)
            views[broker_id] = BrokerView(
                key=broker.voter,
                rack=broker.rack,
                presence=broker.presence,
                drain=broker.drain,
                is_live=is_live,
                is_ready=is_live and broker.is_registered and broker_id in able,
                silent_ms=silence.silent_ms(now_ms),
                live_ms=silence.live_ms(now_ms),
                heard_by=heard_by[broker_id],
                disk_total=None if measured is None else measured.disk_total,
                disk_used=None if measured is None else measured.disk_used,
                cpu=None if measured is None else measured.cpu,
                figures_at_ms=0 if measured is None else measured.at_ms,
            )
        return views

    def _heard_by(self, image: ClusterImage) -> dict[BrokerId, int]:
        """Return how many live brokers hear each broker; none counts itself."""
        live, unheard_by = self._cluster.live(), self._cluster.unheard_by_peers()
        unheard = Counter(chain.from_iterable(unheard_by.values()))
        heard_by = {}
        for broker_id, broker in image.brokers.items():
            heard_by[broker_id] = int(broker_id in live and broker_id != self._me)
            if broker.is_registered:
                heard_by[broker_id] += len(unheard_by) - (broker_id in unheard_by) - unheard[broker_id]
        return heard_by


def _silence(broker: Broker, policy: Policy, now_ms: int) -> Silence:
    is_silent = broker.presence is not Presence.ACTIVE
    return Silence(now_ms, silent_since_ms=now_ms - policy.silent_after_ms if is_silent else None)
