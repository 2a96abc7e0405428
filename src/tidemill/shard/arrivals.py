"""Prepares a producer's batch for the arrivals log of a timer partition, in which records wait until they are due."""

from typing import Final

from tidemill.batches.batch import HEADER_BYTES
from tidemill.batches.native import scan
from tidemill.model import errors
from tidemill.model.timer_logs import arrivals_of, kept_of, released_of
from tidemill.shard.partition import Partition
from tidemill.storage.machine.shard_machine import MachineNumber
from tidemill.storage.machine.timer_machine import TimerMachine
from tidemill.timer.normalize import SCHEDULES_MAX, RecordRefused, SchedulesFull, normalized
from tidemill.timer.release_batch import ADDED_BYTES_MAX
from tidemill.timer.timer_headers import hash_of
from tidemill.timer.timer_partition import TimerPartition

UNBOUNDED: Final = -1


class ArrivalRefused(ValueError):
    """A batch may not arrive: Kafka's error code, and the index of the record that is at fault, if there is one."""

    def __init__(self, error_code: int, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.index = index


def timers_of(partition: Partition) -> TimerPartition:
    """Return what waits of a timer partition; `partition` is any of its logs."""
    machine = partition.shard.log.machines.by_number[MachineNumber.TIMERS]
    assert isinstance(machine, TimerMachine)
    return machine.partitions[released_of(partition.number)]


def waiting_bytes(partition: Partition) -> int:
    """
    Return about how many bytes of records wait in a timer partition, or will when what is in the log has been committed
    and applied; `partition` is any of its logs.
    """
    number, logs, waiting = released_of(partition.number), partition.shard.log.partitions, timers_of(partition).waiting
    arrivals, kept = logs[arrivals_of(number)], logs[kept_of(number)]
    records = sum(log.end_offset - log.log_start for log in (arrivals, kept))
    count = waiting.count + arrivals.end_offset - waiting.end
    return (arrivals.size_bytes + kept.size_bytes) * count // records if records else 0


def arrival_batch(arrivals: Partition, batch: bytearray | memoryview, append_time: int) -> bytearray | memoryview:
    """
    Return a checked, uncompressed batch of a producer in the form that replicas read (`timer/normalize.py`).

    `append_time` is the time from which delays count.  Raise ArrivalRefused, also while the release clock is not known:
    a delay that counted from an old append time would be over at once.
    """
    config, name = arrivals.config, f"{arrivals.topic}-{released_of(arrivals.number)}"
    if arrivals.shard.release_limit is None:
        raise ArrivalRefused(
            errors.NOT_ENOUGH_REPLICAS,
            f"too few brokers of {name} are heard to know the time; retry, and check the brokers of its replicas",
        )
    bound = config.timer_waiting_bytes_max
    if bound != UNBOUNDED and len(batch) > bound:
        raise ArrivalRefused(
            errors.MESSAGE_TOO_LARGE,
            f"the batch has {len(batch)} B, and tidemill.timer.waiting.bytes.max of topic {arrivals.topic} is {bound}: "
            "send smaller batches, or raise it",
        )
    if bound != UNBOUNDED and waiting_bytes(arrivals) + len(batch) > bound:
        raise ArrivalRefused(
            errors.KAFKA_STORAGE_ERROR,
            f"the records that wait in {name} have reached tidemill.timer.waiting.bytes.max={bound}: "
            "wait until some are due, cancel some, or raise it",
        )
    timers, topic_id = timers_of(arrivals), arrivals.log.topic_id
    try:
        found = normalized(
            batch,
            append_time,
            size_max=config.max_message_bytes,
            delay_ms_max=config.max_delay_ms,
            schedules_max=max(SCHEDULES_MAX - timers.schedule_count, 0),
            is_recurring=lambda it: timers.has_schedule(hash_of(it, topic_id)),
        )
    except RecordRefused as problem:
        if isinstance(problem, SchedulesFull) and not timers.is_restored:  # a schedule whose id it has may seem new
            raise ArrivalRefused(errors.LEADER_NOT_AVAILABLE, f"what waits in {name} is being read; retry") from None
        raise ArrivalRefused(errors.INVALID_RECORD, f"record {problem.index}: {problem}", problem.index) from None
    except ValueError as problem:  # a record that cannot be walked, such as with the least timestamp delta
        raise ArrivalRefused(errors.INVALID_RECORD, f"the batch cannot be read: {problem}") from None
    size, journal_max = len(found), arrivals.shard.batch_bytes_max
    if size > journal_max - ADDED_BYTES_MAX:  # a record alone must fit when it is released
        raise ArrivalRefused(
            errors.MESSAGE_TOO_LARGE,
            f"the batch has {size} B with due times in digits, and releases add up to {ADDED_BYTES_MAX} B; "
            f"the bound of the journal is {journal_max}: send smaller batches, or raise it",
        )
    # The producer has filled its batch up to max.message.bytes before times became digits, which may be longer.
    if size > config.max_message_bytes - ADDED_BYTES_MAX:
        largest = HEADER_BYTES + scan.largest_record(found, HEADER_BYTES, size)
        if largest > config.max_message_bytes - ADDED_BYTES_MAX:
            raise ArrivalRefused(
                errors.MESSAGE_TOO_LARGE,
                f"a record alone has {largest} B with its due time in digits, and its release adds up to "
                f"{ADDED_BYTES_MAX} B; max.message.bytes of topic {arrivals.topic} is {config.max_message_bytes}: "
                "send smaller records, or raise it",
            )
    assert isinstance(found, bytearray | memoryview), "a producer's batch is writable"
    return found
