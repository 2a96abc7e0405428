"""Config values that groups obey, and bounds of our own."""

from dataclasses import dataclass

OFFSETS_EXAMINED_AT_ONCE_MAX = 5_000  # by one expiry step, some ms of work and < 1 MB of tombstones; then the next step
PENDING_MEMBERS_MAX = 10_000  # ids given out but not yet used; at the bound a join is refused: GROUP_MAX_SIZE_REACHED
NAME_BYTES_MAX = 32_767  # what an int16 length can say; longer names are refused
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000  # Kafka's: a new member cannot send heartbeats while its first JoinGroup is parked


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Each field is the Kafka config beside it, with Kafka's default."""

    session_timeout_ms_min: int = 6_000  # group.min.session.timeout.ms
    session_timeout_ms_max: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    size_max: int = 2**31 - 1  # group.max.size
    offsets_retention_ms: int = 10_080 * 60_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    offset_metadata_bytes_max: int = 4_096  # offset.metadata.max.bytes
    group_metadata_bytes_max: int = 1_000_000  # what fits one record of __consumer_offsets (its max.message.bytes)


def name_fits(name: str) -> bool:
    """Whether a log record can hold `name`; the bytes are counted only when they could be too many."""
    return len(name) * 4 <= NAME_BYTES_MAX or len(name.encode()) <= NAME_BYTES_MAX
