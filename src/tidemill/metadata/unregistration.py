"""Decides UnregisterBroker, which removes a broker from the cluster that is down for good and carries nothing."""

from dataclasses import dataclass

from tidemill.metadata.broker_states import BrokerChanged, known_broker
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.metadata_records import RemoveBrokerRecord
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Presence
from tidemill.model.shard import METADATA_SHARD, ShardId

SHARDS_NAMED_MAX = 10  # a message that named all of a broker's shards would have thousands of numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """Remove a broker and its configuration.  Its data directory can never return to the cluster."""

    broker_id: BrokerId
    carrying: tuple[ShardId, ...]  # shards of which it is a member in force, as their leaders say
    untold: tuple[ShardId, ...] = ()  # shards of which it may be one: no leader has told their members yet


def unregister_broker(context: DecisionContext, command: UnregisterBroker) -> Result[BrokerChanged]:
    """Remove a broker if it is down, no replica is planned on it, and no membership in force has it."""
    broker_id = command.broker_id
    broker = known_broker(context, broker_id, "unregistering brokers")
    if isinstance(broker, Problem):
        return Result((), BrokerChanged(problem=broker))
    why = _refusal(context, command)
    if why is not None:
        problem = Problem(errors.INVALID_REQUEST, f"unregistering broker {broker_id} is refused: {why}")
        return Result((), BrokerChanged(problem=problem))
    return Result((RemoveBrokerRecord(broker_id),), BrokerChanged())


def _refusal(context: DecisionContext, command: UnregisterBroker) -> str | None:
    broker_id, image, shards = command.broker_id, context.image, context.image.shards
    if context.is_live(broker_id):
        return "it is live; drain it with `tidemill cluster drain`, and stop it"
    planned = {it for it, shard in shards.items() if any(key.broker_id == broker_id for key in shard.replicas)}
    if planned:
        is_gone = image.brokers[broker_id].presence is Presence.GONE
        moving = "wait until they are placed elsewhere; `tidemill cluster rebalance` names those that cannot be"
        fix = moving if is_gone else "drain it with `tidemill cluster drain`"
        return f"replicas of {_shards_text(image, planned)} are planned on it; {fix}"
    member_of = {it for it in command.carrying if it in shards}
    if member_of:
        return f"it is still a member of {_shards_text(image, member_of)}; wait until their replicas have moved"
    untold = {it for it in command.untold if it in shards}
    if untold:
        return (
            f"it may be a member of {_shards_text(image, untold)}, whose members no leader has told a new controller "
            "yet; try again in some seconds, and if a shard has lost its leader for good, delete its topic"
        )
    return None


def _shards_text(image: ClusterImage, shard_ids: set[ShardId]) -> str:
    names = [_shard_text(image, shard_id) for shard_id in sorted(shard_ids)[:SHARDS_NAMED_MAX]]
    more = f" and {len(shard_ids) - SHARDS_NAMED_MAX} more" if len(shard_ids) > SHARDS_NAMED_MAX else ""
    return ", ".join(names) + more


def _shard_text(image: ClusterImage, shard_id: ShardId) -> str:
    """Return a shard with its partitions, since Kafka's commands, which show the text, know no shards."""
    if shard_id == METADATA_SHARD:
        return "the metadata shard"
    shard = image.shards[shard_id]
    first, last = shard.partitions[0], shard.partitions[-1]
    partitions = f"partition {first}" if first == last else f"partitions {first} to {last}"
    return f"shard {shard_id} ({image.topics_by_id[shard.topic_id].name}, {partitions})"
