"""The check before a broker stops: which shards would lose their in-sync majority.

A broker that restarts is away for seconds.  A shard goes on meanwhile if a majority of its voters, without that broker,
is live and has what is committed.
"""

from typing import NamedTuple

from tidemill.metadata.image import ClusterImage, Shard
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.sentences import brokers_text
from tidemill.rebalance.slices import Slices, Work
from tidemill.rebalance.view import View


class NoMajority(NamedTuple):
    shard_id: ShardId
    sentence: str
    is_lasting: bool  # its replicas are too few, however well they are: waiting does not help


def may_stop(image: ClusterImage, view: View, broker_id: BrokerId) -> Slices[tuple[NoMajority, ...]]:
    """Return the shards that would lose their in-sync majority if the broker stopped now; without any, it may stop."""
    brokers, work, found = BrokerSet(image, view), Work(), []
    for shard in image.shards.values():
        problem = _problem(shard, view, brokers, broker_id)
        if problem is not None:
            why, is_lasting = problem
            found.append(NoMajority(shard.shard_id, f"shard {shard.shard_id}: {why}", is_lasting))
        if work.fills_slice():
            yield
    return tuple(found)


def _problem(shard: Shard, view: View, brokers: BrokerSet, broker_id: BrokerId) -> tuple[str, bool] | None:
    """Return why a shard would lose its in-sync majority, and whether that lasts; None if it would not."""
    figures = view.shards.get(shard.shard_id)
    if figures is None or figures.membership is None:
        is_planned = any(replica.broker_id == broker_id for replica in shard.replicas)
        return ("no leader has told yet which replicas are in sync", False) if is_planned else None
    voters = figures.membership.voters
    if all(voter.broker_id != broker_id for voter in voters):
        return None
    others = [voter for voter in voters if voter.broker_id != broker_id]
    if not others:
        return "its only replica is there", True
    late = [voter.broker_id for voter in others if voter.broker_id not in figures.in_sync or not brokers.is_live(voter)]
    left, needed = len(others) - len(late), len(voters) // 2 + 1
    if left >= needed:
        return None
    is_lasting = len(others) < needed
    why = "its replicas are too few to do without one" if is_lasting else f"{brokers_text(late)} not in sync"
    return f"{left} of {len(voters)} replicas would be left in sync, and {needed} are needed; {why}", is_lasting
