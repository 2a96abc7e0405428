"""The part of a share group's configuration that determines what happens to its records."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidemill.model.back_off import NO_BACK_OFF, BackOff
from tidemill.model.share_group_config import ShareGroupConfig


class Order(StrEnum):
    """Which records of a partition may not be held at the same time."""

    NONE = "none"
    KEY = "key"  # two records with the same key: a record waits for those of its key with smaller offsets
    PARTITION = "partition"  # records of two batches


class Mode(StrEnum):
    """How many members of a group may hold records of a partition at the same time."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The settings of a share group.  The defaults are Kafka's."""

    lock_ms: int = 30_000
    delivery_limit: int = 5
    locks_max: int = 2_000
    is_renewable: bool = True
    has_dead_letters: bool = False
    back_off: BackOff = NO_BACK_OFF
    order: Order = Order.NONE
    mode: Mode = Mode.SHARED
    look_ahead: int = 10_000  # records whose keys or priorities are known ahead of the first available one
    is_prioritized: bool = False
    ttl_ms: int = -1  # -1: records do not expire
    tracked_max: int = 10_000  # runs and letters; beyond, no record behind the last run is acquired
    waits_at_failover: bool = False  # whether a new leader of an ordered or exclusive share waits for `lock_ms` first

    @property
    def is_confirmed(self) -> bool:
        """Whether a leader confirms its leadership before it delivers records."""
        return self.order is not Order.NONE or self.mode is Mode.EXCLUSIVE

    @property
    def has_look_ahead(self) -> bool:
        """Whether only records are delivered whose batches have been opened."""
        return self.order is Order.KEY or (self.is_prioritized and self.order is Order.NONE)

    def records_at_once(self, delivery_count: int, batch_size: int) -> int | None:
        """
        Return how many records may be in a response with a record that has `delivery_count` earlier deliveries; None:
        any number.

        After half of the permitted deliveries, the number is half of `batch_size`, and each further delivery halves it.
        For its last delivery, a record is delivered alone.
        """
        threshold = max(2, (self.delivery_limit + 1) // 2)
        if delivery_count < threshold:
            return None
        if delivery_count >= self.delivery_limit - 1 and self.delivery_limit > 2:
            return 1
        return max(batch_size >> (delivery_count - threshold + 1), 1)


def settings_from(config: ShareGroupConfig) -> ShareSettings:
    """Return the settings of a group with this configuration."""
    return ShareSettings(
        lock_ms=config.lock_ms,
        delivery_limit=config.delivery_limit,
        locks_max=config.locks_max,
        is_renewable=config.is_renewable,
        back_off=config.back_off,
        order=Order(config.order),
        mode=Mode(config.mode),
        look_ahead=config.look_ahead,
        is_prioritized=config.is_prioritized,
        ttl_ms=config.ttl_ms,
        tracked_max=config.tracked_max,
        waits_at_failover=config.waits_at_failover,
        has_dead_letters=bool(config.dead_letter_topic),
    )


REDRIVE: Final = ShareSettings(delivery_limit=(1 << 15) - 1, has_dead_letters=True, tracked_max=50_000)
"""
The settings of the groups that send dead letters back: they have no members, and an operator rejects records, often
with gaps between them.
"""
