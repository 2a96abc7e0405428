"""The reasons for refusing a Produce request, or one of its batches, before the batch itself is checked."""

from typing import Final

from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.append import Appended
from tidemill.shard.partition import Partition
from tidemill.wire.messages.produce import Request

ACKS_LEGAL: Final = (-1, 0, 1)


def request_refusal(request: Request, context: RequestContext) -> Appended | None:
    """Return the refusal for every partition if the entire request must be refused, otherwise None."""
    if context.version < 3:
        return Appended(
            errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, message="only record batch v2 (Produce v3 and later) is stored"
        )
    if request.acks not in ACKS_LEGAL:
        return Appended(errors.INVALID_REQUIRED_ACKS, message=f"acks={request.acks} is invalid: use -1 (all), 0 or 1")
    if request.transactional_id is not None:
        return Appended(
            errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            message="transactions are not implemented: unset transactional.id",
        )
    problem = context.broker.storage_problem()
    if problem is not None:
        return Appended(errors.KAFKA_STORAGE_ERROR, message=problem)
    return None


def unknown_partition(context: RequestContext, name: str | None, topic_id: bytes, number: int) -> Appended:
    if name is None:
        return Appended(errors.UNKNOWN_TOPIC_ID, message=f"no topic has the id {topic_id.hex()}")
    code = context.broker.missing_partition(name, b"", number)
    if code == errors.NOT_LEADER_OR_FOLLOWER:
        return Appended(code, message=f"this broker does not lead partition {number} of {name}")
    return Appended(code, message=f"topic {name} does not exist, or has no partition {number}")


def too_few_replicas(partition: Partition, insync: int) -> Appended:
    live = partition.shard.live_voters
    return Appended(
        errors.NOT_ENOUGH_REPLICAS,
        message=f"min.insync.replicas={insync} of topic {partition.topic}, but {live} of its "
        f"{len(partition.shard.replica.voters)} replicas are up: lower it, or start the missing brokers",
    )


def not_accepting(partition: Partition) -> Appended:
    shard = partition.shard
    if shard.log.damage is not None:
        return Appended(errors.KAFKA_STORAGE_ERROR, message=f"{shard.log.damage}; {shard.damage.outlook}")
    if shard.is_serving:
        return Appended(
            errors.NOT_LEADER_OR_FOLLOWER, message="the leader is transferring its leadership to another broker"
        )
    if shard.is_unconfirmed:
        return Appended(errors.NOT_LEADER_OR_FOLLOWER, message="the leader has not confirmed its term yet")
    return Appended(
        errors.NOT_LEADER_OR_FOLLOWER,
        message=f"this broker does not lead partition {partition.number} of {partition.topic}",
    )
