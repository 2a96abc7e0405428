"""Accounts: what brokers will carry once all steps that are under way or planned have ended.

Measured figures lag behind: a disk from which a replica is being moved is still full.  Judged by what is measured now,
it would be emptied further with each pass.
"""

from collections import Counter

from tidemill.metadata.image import Shard
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.view import BrokerView, ShardView, remaining


class Accounts:
    def __init__(self, brokers: BrokerSet, index: ShardIndex, policy: Policy) -> None:
        self._brokers = brokers
        self._policy = policy
        self.moves = 0  # shards with a copy under way or planned
        self.incoming: Counter[BrokerId] = Counter()  # copies to a broker
        self.outgoing: Counter[BrokerId] = Counter()  # copies that a broker sends
        self.coming: Counter[BrokerId] = Counter()  # bytes that a disk will get
        self.leaving: Counter[BrokerId] = Counter()  # bytes that a disk will be rid of
        self.carried = {broker_id: len(index.carried(broker_id)) for broker_id in brokers.known}
        self.led = {broker_id: len(index.led(broker_id)) for broker_id in brokers.known}
        self.planned_bytes = {broker_id: index.planned_bytes[broker_id] for broker_id in brokers.known}

    def count_under_way(self, shard: Shard, figures: ShardView) -> None:
        """
        Count a shard whose members are on their way to the plan.  The index has counted the plan already.

        Without a live majority nothing is copied.  Such a move may never end, so it takes no place among the copies
        that the limits allow.
        """
        assert figures.membership is not None
        voters = figures.membership.voters
        newcomers = [replica for replica in shard.replicas if replica not in voters]
        is_copied = bool(newcomers) and self._brokers.majority_problem(figures) is None
        for newcomer in newcomers:
            self.incoming[newcomer.broker_id] += is_copied
            self.coming[newcomer.broker_id] += remaining(figures, newcomer)
        for voter in voters:
            if voter not in shard.replicas:
                self.leaving[voter.broker_id] += figures.size
        if is_copied:
            self.moves += 1
            self.outgoing[sender(figures)] += 1

    def replace(self, figures: ShardView, former: ReplicaKey, newcomer: ReplicaKey, *, is_first: bool) -> None:
        """Count a planned step that puts `newcomer` in the place of `former`; `is_first`: as the preferred leader."""
        old, new = former.broker_id, newcomer.broker_id
        self.carried[new] += 1
        self.planned_bytes[new] += figures.size
        if is_first:
            self.led[new] += 1
        if old in self.carried:
            self.carried[old] -= 1
            self.planned_bytes[old] -= figures.size
            self.led[old] -= is_first
        assert figures.membership is not None
        if newcomer in figures.membership.voters:
            self.leaving[new] -= figures.size  # it was leaving, and stays now
        else:
            self.coming[new] += remaining(figures, newcomer)
            self.incoming[new] += 1
        self.leaving[old] += figures.size

    def drop(self, figures: ShardView, former: ReplicaKey, heir: ReplicaKey | None) -> None:
        """Count a planned step that leaves a replica out; `heir` becomes the preferred leader if `former` was it."""
        old = former.broker_id
        if old in self.carried:
            self.carried[old] -= 1
            self.planned_bytes[old] -= figures.size
            self.led[old] -= heir is not None
        if heir is not None and heir.broker_id in self.led:
            self.led[heir.broker_id] += 1
        self.leaving[old] += figures.size

    def begin_copy(self, figures: ShardView) -> None:
        self.moves += 1
        self.outgoing[sender(figures)] += 1

    def disk_after(self, broker_id: BrokerId, broker: BrokerView) -> int | None:
        """Return the bytes that will be used on a disk once all steps have ended; None without figures."""
        if broker.disk_used is None:
            return None
        return broker.disk_used + self.coming[broker_id] - self.leaving[broker_id]

    def has_room(self, broker_id: BrokerId, broker: BrokerView, size: int) -> bool:
        """Return whether a disk stays within the limit with `size` bytes more, even before anything leaves it."""
        if broker.disk_used is None or broker.disk_total is None:
            return False
        after = broker.disk_used + self.coming[broker_id] + size
        return after * 100 <= broker.disk_total * self._policy.disk_percent_max


def sender(figures: ShardView) -> BrokerId:
    """Return the broker that sends copies of a shard: its leader, or the voter that is likely to lead it next."""
    assert figures.membership is not None
    return figures.membership.voters[0].broker_id if figures.leader is None else figures.leader
