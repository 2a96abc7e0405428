"""Leadership checks: whether this broker may serve a partition and, if not, the error code.

    replica on this broker       append                    read
    follower                     NOT_LEADER_OR_FOLLOWER    NOT_LEADER_OR_FOLLOWER
    leader, term not confirmed   NOT_LEADER_OR_FOLLOWER    OFFSET_NOT_AVAILABLE, except for committed records
    leader, in a transfer        NOT_LEADER_OR_FOLLOWER    served
    damaged                      KAFKA_STORAGE_ERROR       KAFKA_STORAGE_ERROR
    of the metadata topic        TOPIC_AUTHORIZATION_FAILED, because it is for brokers only, and will hold credentials

A new leader has every committed record, but does not know how many of its records are committed until an entry of its
own term has committed (KIP-207, rule A1 of `docs/raft.md`).  `docs/protocol/leadership.md` lists each API's errors.
"""

from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.shard.partition import Partition


def leadership_problem(partition: Partition, leader_epoch: int) -> int:
    """
    Return 0 if this broker may serve a client that expects `leader_epoch` (-1 for any), otherwise the error code
    (KIP-320).
    """
    if partition.topic == METADATA_TOPIC:
        return errors.TOPIC_AUTHORIZATION_FAILED
    shard = partition.shard
    if not shard.is_serving:
        if shard.log.damage is not None:
            return errors.KAFKA_STORAGE_ERROR
        return errors.OFFSET_NOT_AVAILABLE if shard.is_unconfirmed else errors.NOT_LEADER_OR_FOLLOWER
    return _epoch_problem(leader_epoch, shard.replica.term)


def reading_problem(partition: Partition, leader_epoch: int, fetch_offset: int) -> int:
    """Return 0 if this broker may serve a read that starts at `fetch_offset`, otherwise the error code."""
    shard = partition.shard
    code = leadership_problem(partition, leader_epoch)
    if code == errors.OFFSET_NOT_AVAILABLE and fetch_offset <= partition.high_watermark:
        code = _epoch_problem(leader_epoch, shard.replica.term)
    if code:
        return code
    is_inside = partition.log.log_start <= fetch_offset <= partition.log.end_offset
    return errors.NONE if is_inside else errors.OFFSET_OUT_OF_RANGE


def _epoch_problem(leader_epoch: int, term: int) -> int:
    if leader_epoch < 0 or leader_epoch == term:
        return errors.NONE
    return errors.FENCED_LEADER_EPOCH if leader_epoch < term else errors.UNKNOWN_LEADER_EPOCH
