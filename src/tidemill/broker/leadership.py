"""Whether this broker may answer for a partition's offsets: it leads, that is confirmed, and the client knows of it."""

from tidemill.model import errors
from tidemill.shard.partition import Partition


def leadership_problem(partition: Partition, leader_epoch: int) -> int:
    """The error code for one who believes in `leader_epoch` (-1: in any); 0 when he may be answered.  KIP-320."""
    shard = partition.shard
    if not shard.is_serving:
        if shard.log.damage is not None:
            return errors.KAFKA_STORAGE_ERROR
        # KIP-207: a leader does not know how far it may answer before an entry of its own term has committed.
        return errors.OFFSET_NOT_AVAILABLE if shard.replica.leads else errors.NOT_LEADER_OR_FOLLOWER
    term = shard.replica.term
    if leader_epoch >= 0 and leader_epoch != term:
        return errors.FENCED_LEADER_EPOCH if leader_epoch < term else errors.UNKNOWN_LEADER_EPOCH
    return errors.NONE
