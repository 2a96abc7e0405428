"""Configuration values that apply to groups, and fixed limits."""

from dataclasses import dataclass

OFFSETS_PER_EXPIRY_STEP_MAX = 5_000  # an expiry step blocks the event loop; the next step examines the rest
PENDING_MEMBERS_MAX = 10_000  # unused member ids per group; further joins get GROUP_MAX_SIZE_REACHED
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000  # as in Kafka: a new member cannot send heartbeats while its JoinGroup is parked


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Group configuration.  Each field has Kafka's default; the comment next to it names Kafka's key."""

    session_timeout_ms_min: int = 6_000  # group.min.session.timeout.ms
    session_timeout_ms_max: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    size_max: int = 2**31 - 1  # group.max.size
    share_size_max: int = 200  # group.share.max.size
    offsets_retention_ms: int = 10_080 * 60_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    offset_metadata_bytes_max: int = 4_096  # offset.metadata.max.bytes
    group_metadata_bytes_max: int = 1_000_000  # must fit in one record (max.message.bytes of __consumer_offsets)
