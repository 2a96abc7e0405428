"""Appends batches to a partition: checks them, recognizes duplicates, assigns offsets, stamps and proposes them.

Idempotent producers follow KIP-98 and KIP-360.
"""

from typing import Final, NamedTuple

from tidemill.batches.batch import (
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    stamp,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from tidemill.batches.check import BatchProblem, checked_header
from tidemill.model import errors
from tidemill.raft.entry import BATCH, Entry
from tidemill.shard.arrivals import ArrivalRefused, arrival_batch
from tidemill.shard.partition import REQUEST_COST, Partition
from tidemill.shard.uncommitted import BYTES_MAX
from tidemill.storage.partition.producer_states import Duplicate

LONG_MAX: Final = (1 << 63) - 1


class Appended(NamedTuple):
    """
    The result of an append.  With `error_code` 0, the batch is in the log, and becomes permanent when the entry at
    `log_index` commits.
    """

    error_code: int
    base_offset: int = -1
    log_index: int = 0
    log_append_time: int = -1
    message: str | None = None
    record_count: int = 0  # number of appended records; 0 for a duplicate batch
    record_index: int | None = None  # of the record that is at fault, if the batch is refused because of one


def append_batch(partition: Partition, batch: bytearray | memoryview, now_ms: int) -> Appended:
    """
    Append the batch that a Produce request contains for `partition`.  The offset and the epoch are written into
    `batch`, and the log keeps `batch` without copying it.  `now_ms` is wall-clock time.
    """
    config = partition.config
    size = len(batch)
    if size > config.max_message_bytes:
        return Appended(
            errors.MESSAGE_TOO_LARGE,
            message=f"the batch has {size} B; max.message.bytes of topic {partition.topic} is "
            f"{config.max_message_bytes}: send smaller batches, or raise it",
        )
    if size > partition.shard.batch_bytes_max:
        return Appended(
            errors.MESSAGE_TOO_LARGE,
            message=f"the batch has {size} B; the journal takes at most "
            f"{partition.shard.batch_bytes_max} B: send smaller batches",
        )
    if not partition.shard.has_replication_credit:
        return Appended(
            errors.NOT_ENOUGH_REPLICAS,
            message=f"the other replicas of {partition.topic}-{partition.number} lag: {BYTES_MAX >> 20} MiB of its "
            "shard are not committed; retry, and check the brokers of those replicas",
        )
    before_max, after_max = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    header = checked_header(
        batch,
        timestamp_min=None if before_max == LONG_MAX else now_ms - before_max,
        timestamp_max=None if after_max == LONG_MAX else now_ms + after_max,
        is_log_append_time=config.is_log_append_time,
    )
    if isinstance(header, BatchProblem):
        if header.max_timestamp is None:
            return Appended(header.error_code, message=header.message)
        stamp_max_timestamp(batch, header.max_timestamp)
        header = read_header(batch)
    if header.attributes & TRANSACTIONAL:
        return Appended(
            errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            message="transactions are not built yet: unset transactional.id",
        )
    shard = partition.shard
    append_time = shard.append_time(now_ms)
    if header.producer_id != NO_PRODUCER_ID:
        verdict = partition.log.producers.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
        )
        if isinstance(verdict, Duplicate):
            stamped = verdict.append_time if config.is_log_append_time else -1
            return Appended(errors.NONE, verdict.base_offset, verdict.log_index, stamped)
        if verdict:
            return Appended(
                verdict,
                message=f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence} "
                f"does not follow its last batch in partition {partition.topic}-{partition.number}",
            )
    if partition.is_hidden:
        try:
            batch = arrival_batch(partition, batch, append_time)
        except ArrivalRefused as refused:
            return Appended(refused.error_code, message=str(refused), record_index=refused.index)
    if config.is_log_append_time:
        stamp_log_append_time(batch, append_time)
        header = read_header(batch)
    return _propose(partition, batch, header, append_time)


def _propose(partition: Partition, batch: bytearray | memoryview, header: BatchHeader, append_time: int) -> Appended:
    """Stamp and propose `batch`.  `header` is the batch's header before its offset and epoch are stamped."""
    shard = partition.shard
    base_offset = partition.log.end_offset
    stamp(batch, base_offset, shard.replica.term)
    entry = Entry(BATCH, batch, partition.number, base_offset, header.record_count, append_time)
    entry.header = header
    partition.cost += REQUEST_COST
    index = shard.propose(entry)
    log_append_time = append_time if header.attributes & LOG_APPEND_TIME else -1
    return Appended(errors.NONE, base_offset, index, log_append_time, record_count=header.record_count)


def append_own(partition: Partition, batch: bytearray, now_ms: int, *, append_time_min: int = 0) -> int:
    """
    Append a batch that the broker itself has built (metadata, group offsets), and return its log index.  Its append
    time is at least `append_time_min`.  Raises ValueError if the batch is too large.
    """
    if len(batch) > partition.shard.batch_bytes_max:  # the batch would block the journal's queue forever
        raise ValueError(
            f"a batch of {len(batch)} B for {partition.topic}-{partition.number} is too large: "
            f"the journal takes at most {partition.shard.batch_bytes_max} B"
        )
    append_time = max(partition.shard.append_time(now_ms), append_time_min)
    if partition.config.is_log_append_time:
        stamp_log_append_time(batch, append_time)
    return _propose(partition, batch, read_header(batch), append_time).log_index
