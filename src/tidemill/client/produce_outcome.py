"""What the broker's answer to a produced batch means for the producer, as in Java's producer (KIP-98, KIP-360)."""

from enum import StrEnum
from typing import Final

from tidemill.client.failures import ClientError
from tidemill.model import errors
from tidemill.wire.messages import produce

_RETRIABLE: Final = frozenset(
    {
        errors.CORRUPT_MESSAGE,  # the batch was damaged in transit
        errors.FENCED_LEADER_EPOCH,
        errors.KAFKA_STORAGE_ERROR,
        errors.LEADER_NOT_AVAILABLE,
        errors.NETWORK_EXCEPTION,
        errors.NOT_ENOUGH_REPLICAS,
        errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.REPLICA_NOT_AVAILABLE,
        errors.REQUEST_TIMED_OUT,
        errors.UNKNOWN_LEADER_EPOCH,
        errors.UNKNOWN_TOPIC_OR_PARTITION,  # also returned by a broker that does not know a new partition yet
    }
)
_SEQUENCE_PROBLEMS: Final = frozenset({errors.OUT_OF_ORDER_SEQUENCE_NUMBER, errors.UNKNOWN_PRODUCER_ID})
_FIXES: Final = {
    errors.CLUSTER_AUTHORIZATION_FAILED: (
        "grant the permission IDEMPOTENT_WRITE on the cluster, or set enable.idempotence=false"
    ),
    errors.INVALID_PRODUCER_EPOCH: "another producer has the same producer id; run the write again",
    errors.INVALID_TIMESTAMP: (
        "a timestamp is further from the present than message.timestamp.before.max.ms or "
        "message.timestamp.after.max.ms of the topic allows; change the timestamps or the topic"
    ),
    errors.MESSAGE_TOO_LARGE: "a record exceeds max.message.bytes of the topic; raise it, or split the record",
    errors.RECORD_LIST_TOO_LARGE: "a batch exceeds segment.bytes of the topic; lower batch.size",
    errors.TOPIC_AUTHORIZATION_FAILED: "grant the permission WRITE on the topic",
    errors.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not know the codec; change compression.type",
}


class Outcome(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    RETRY = "retry"  # send the batch again with the same sequence number
    RESTART = "restart"  # the broker has lost the sequence: send the batch again as number 0 of a new epoch
    SPLIT = "split"  # the batch is too large for the broker
    REFUSED = "refused"  # a retry would fail in the same way


def outcome_of(answer: produce.Response.Topic.Partition | None, *, is_first: bool) -> Outcome:
    """
    Return what to do after `answer`, which is None if the response does not mention the batch's partition.

    `is_first` says whether all earlier batches of the partition are acknowledged.  Only then does an out-of-order
    sequence error mean that the broker has lost the sequence; otherwise an earlier batch has failed and will be sent
    again.
    """
    if answer is None:
        return Outcome.RETRY
    if answer.error_code in (errors.NONE, errors.DUPLICATE_SEQUENCE_NUMBER):
        return Outcome.ACKNOWLEDGED
    if answer.error_code in _SEQUENCE_PROBLEMS:
        return Outcome.RESTART if is_first else Outcome.RETRY
    if answer.error_code == errors.MESSAGE_TOO_LARGE:
        return Outcome.SPLIT
    return Outcome.RETRY if answer.error_code in _RETRIABLE else Outcome.REFUSED


def refusal(name: str, answer: produce.Response.Topic.Partition | None) -> ClientError:
    """Return the failure that `answer` reports for the partition called `name`."""
    if answer is None:
        return ClientError(f"the broker's response does not mention {name}")
    detail = f" ({answer.error_message})" if answer.error_message else ""
    fix = _FIXES.get(answer.error_code)
    return ClientError(f"{errors.name(answer.error_code)}{detail}" + (f": {fix}" if fix else ""))
