"""SilentBrokers: which brokers are heard by no live broker, and since when.

    this broker does not hear it ─┬─▶ silent
    no live peer hears it ────────┘

The peers' heartbeats list the brokers that they do not hear (`peer.frame`).  A broker with a bad network of its own
hears few others, and must not take them for dead.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.clock import Clock


class BrokerHearing(Protocol):
    """The part of `Cluster` that this module uses."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def me(self) -> ReplicaKey: ...

    def live(self) -> frozenset[BrokerId]:
        """Return this broker and the brokers that it hears."""
        ...

    def unheard_by_peers(self) -> Mapping[BrokerId, frozenset[BrokerId]]:
        """Return the brokers that each live peer does not hear, by its last heartbeat."""
        ...


class SilentBrokers:
    """
    The registered brokers that no live broker hears.

    In doubt, a broker is heard: a peer of an older version lists none, and a peer that has not read the newest metadata
    does not list a broker that is new.
    """

    def __init__(self, cluster: BrokerHearing, clock: Clock) -> None:
        """`clock` counts only the time in which this broker ran."""
        self._cluster: Final = cluster
        self._clock = clock
        self.unheard: tuple[BrokerId, ...] = ()  # the registered brokers that this broker did not hear at the last tick
        self._since_ms: dict[BrokerId, int] = {}

    def tick(self) -> None:
        """Find out which brokers are silent.  Called at each tick."""
        live, brokers = self._cluster.live(), self._cluster.image.brokers.values()
        self.unheard = tuple(sorted(it.broker_id for it in brokers if it.broker_id not in live and it.is_registered))
        silent = set(self.unheard)
        if silent:
            silent.intersection_update(*self._cluster.unheard_by_peers().values())
        now_ms = self._clock.monotonic_ms()
        self._since_ms = {broker_id: self._since_ms.get(broker_id, now_ms) for broker_id in silent}

    def heard_by(self, broker_id: BrokerId) -> int:
        """Return how many live brokers, this one included, hear a registered broker; it does not count itself."""
        is_heard_here = broker_id != self._cluster.me.broker_id and broker_id in self._cluster.live()
        peers = self._cluster.unheard_by_peers().items()
        return is_heard_here + sum(broker_id not in unheard for peer, unheard in peers if peer != broker_id)

    def is_silent(self, broker_id: BrokerId) -> bool:
        return broker_id in self._since_ms

    def silent_ms(self, broker_id: BrokerId) -> int | None:
        """Return for how long the broker has been silent; None if it is not."""
        since_ms = self._since_ms.get(broker_id)
        return None if since_ms is None else self._clock.monotonic_ms() - since_ms
