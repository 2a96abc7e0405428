"""Whether this broker may answer for a partition's offsets: it leads, that is confirmed, and the client knows of it.

    the replica here          who appends               who reads
    follows                   NOT_LEADER_OR_FOLLOWER    NOT_LEADER_OR_FOLLOWER
    leads, not confirmed      NOT_LEADER_OR_FOLLOWER    OFFSET_NOT_AVAILABLE, but for what is known to be committed
    leads, and hands over     NOT_LEADER_OR_FOLLOWER    as ever
    is damaged                KAFKA_STORAGE_ERROR       KAFKA_STORAGE_ERROR

A new leader has every committed record, but does not know how many of its records are committed before one of its own
term is (KIP-207, `log.md` §8).  `docs/protocol/leadership.md` tells what each API answers.
"""

from tidemill.model import errors
from tidemill.shard.partition import Partition


def leadership_problem(partition: Partition, leader_epoch: int) -> int:
    """The error code for one who believes in `leader_epoch` (-1: in any); 0 when he may be answered.  KIP-320."""
    shard = partition.shard
    if not shard.is_serving:
        if shard.log.damage is not None:
            return errors.KAFKA_STORAGE_ERROR
        return errors.OFFSET_NOT_AVAILABLE if shard.is_unconfirmed else errors.NOT_LEADER_OR_FOLLOWER
    return _epoch_problem(leader_epoch, shard.replica.term)


def reading_problem(partition: Partition, leader_epoch: int, fetch_offset: int) -> int:
    """The same, for one who reads from `fetch_offset` on."""
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
