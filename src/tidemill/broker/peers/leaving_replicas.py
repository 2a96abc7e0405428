"""The replicas of a shard that are to go and still count, while it is on its way to the replicas that are planned.

Clients see them behind the planned ones, as in Kafka, so that a move leaves no partition with fewer replicas in sync.
Only the leader knows the voters in force.  The others infer them, since a leader promotes a newcomer before it removes
the replica whose place that takes: as long as a newcomer is out of sync, each replica that was planned before is still
a voter, unless the leader reports it as out of sync, too (`broker/peers/replica_lag`).
"""

from collections.abc import Callable

from tidemill.metadata.image import Shard
from tidemill.model.broker_id import BrokerId, ReplicaKey

IsLagging = Callable[[BrokerId], bool]  # whether the shard's leader reports the replica of a broker as out of sync


def leaving(planned: Shard, is_lagging: IsLagging) -> list[ReplicaKey]:
    """Return the replicas that were planned before and still count, as long as a newcomer is out of sync."""
    return [voter for voter in to_go(planned, is_lagging) if not is_lagging(voter.broker_id)]


def to_go(planned: Shard, is_lagging: IsLagging) -> list[ReplicaKey]:
    """Return the replicas that were planned before, whether they still count or not, likewise."""
    if not planned.previous:
        return []
    newcomers = [voter for voter in planned.replicas if voter not in planned.previous]
    if not any(is_lagging(voter.broker_id) for voter in newcomers):
        return []
    stays = {voter.broker_id for voter in planned.replicas}  # a broker with another directory is planned again
    return [voter for voter in planned.previous if voter.broker_id not in stays]
