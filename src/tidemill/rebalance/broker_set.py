"""BrokerSet: the brokers in one pass of the planner, by what they can do."""

from collections.abc import Iterable, Sequence

from tidemill.metadata.image import ClusterImage, Shard
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.rebalance.sentences import brokers_text, duration, is_or_are
from tidemill.rebalance.shard_index import Racks
from tidemill.rebalance.view import BrokerView, ShardView, View


class BrokerSet:
    def __init__(self, image: ClusterImage, view: View) -> None:
        self.known: dict[BrokerId, BrokerView] = {}
        self.gone: list[BrokerId] = []
        self.drained: list[BrokerId] = []
        self.targets: dict[BrokerId, BrokerView] = {}
        """Brokers that can take replicas, by id: live and ready, and not drained."""
        self._kept_out: list[BrokerId] = []
        self.live_count = 0
        racks: dict[BrokerId, str | None] = {}
        for broker_id in sorted(view.brokers):
            registered, broker = image.brokers.get(broker_id), view.brokers[broker_id]
            if registered is None:
                continue
            self.known[broker_id] = broker
            racks[broker_id] = broker.rack
            self.live_count += broker.is_live
            if is_target(broker) and registered.is_registered:
                self.targets[broker_id] = broker
            elif broker.drain is not Drain.NONE and broker.is_live and broker.presence is Presence.ACTIVE:
                self._kept_out.append(broker_id)
            if broker.presence is Presence.GONE:
                self.gone.append(broker_id)
            if broker.drain is Drain.ALL:
                self.drained.append(broker_id)
        self.racks = Racks(of=racks, usable=frozenset(broker.rack for broker in self.targets.values()))

    def is_live(self, replica: ReplicaKey) -> bool:
        """Return whether the broker is live with the directory that the replica is in."""
        broker = self.known.get(replica.broker_id)
        return broker is not None and broker.is_live and broker.key == replica

    def can_take(self, replica: ReplicaKey) -> bool:
        """Return whether the replica's broker can take replicas, in this very directory."""
        broker = self.targets.get(replica.broker_id)
        return broker is not None and broker.key == replica

    def drained_on_paper(self, broker_id: BrokerId) -> None:
        """Note that a broker is not drained yet, so that no advice is given to undrain it."""
        self._kept_out = [it for it in self._kept_out if it != broker_id]

    def kept_out(self, replicas: Iterable[ReplicaKey]) -> list[BrokerId]:
        """Return the brokers that take no replica beside `replicas` only because they are drained, in any way."""
        taken = {replica.broker_id for replica in replicas}
        return [broker_id for broker_id in self._kept_out if broker_id not in taken]

    def absence(self, replica: ReplicaKey) -> str | None:
        """Return what is wrong with a replica's broker as text; None if it is live."""
        broker = self.known.get(replica.broker_id)
        if broker is None:
            return f"broker {replica.broker_id} is not in this cluster"
        if broker.key != replica:
            return f"broker {replica.broker_id} has another data directory"
        if broker.is_live:
            return None
        return f"{silence_text(replica.broker_id, broker, self.live_count)}"

    def majority_problem(self, figures: ShardView) -> str | None:
        """Return who must come back before the members of a shard can change; None if a majority is live."""
        assert figures.membership is not None
        return self._majority_problem(figures.membership.voters, "voters")

    def planned_majority_problem(self, shard: Shard) -> str | None:
        """
        Likewise for a shard whose members are not known, by the replicas that are planned.  Without a majority it has
        no leader that could tell a new controller its members.
        """
        return self._majority_problem(shard.replicas, "planned replicas")

    def former_majority_problem(self, shard: Shard) -> str | None:
        """
        Likewise by the replicas before the shard's last move, which vote as long as that has not ended.  It has ended
        if a broker of them has been removed, which a member cannot be.
        """
        if not shard.previous or any(replica.broker_id not in self.known for replica in shard.previous):
            return None
        return self._majority_problem(shard.previous, "former replicas")

    def _majority_problem(self, replicas: Sequence[ReplicaKey], what: str) -> str | None:
        dead = [replica.broker_id for replica in replicas if not self.is_live(replica)]
        live = len(replicas) - len(dead)
        needed = len(replicas) // 2 + 1 - live
        if needed <= 0:
            return None
        lost = [replica.broker_id for replica in replicas if self._is_lost(replica)]
        may_return = [broker_id for broker_id in dead if broker_id not in lost]
        way_out = f"{brokers_text(may_return)} must come back"
        if needed > len(may_return):
            have = "has another data directory" if len(lost) == 1 else "have other data directories"
            way_out = f"{brokers_text(lost)} {have}, so the shard cannot be served again"
        elif needed < len(may_return):
            way_out = f"{needed} of {way_out}"
        return f"{live} of {len(replicas)} {what} {is_or_are(live)} live, which is no majority; {way_out}"

    def _is_lost(self, replica: ReplicaKey) -> bool:
        """Return whether another directory has taken the place of a replica's, which cannot return."""
        broker = self.known.get(replica.broker_id)
        return broker is not None and broker.key != replica

    def text_of_silence(self, broker_id: BrokerId) -> str:
        broker = self.known.get(broker_id)
        if broker is None:
            return f"broker {broker_id} is not in this cluster"
        return silence_text(broker_id, broker, self.live_count)


def is_target(broker: BrokerView) -> bool:
    """Return whether a broker can take replicas, and lead."""
    return broker.presence is Presence.ACTIVE and broker.drain is Drain.NONE and broker.is_live and broker.is_ready


def silence_text(broker_id: BrokerId, broker: BrokerView, live_count: int) -> str:
    return f"broker {broker_id} silent for {duration(broker.silent_ms)}, heard by {broker.heard_by} of {live_count}"
