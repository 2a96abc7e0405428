"""The part of a share group's configuration that determines what happens to its records."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

Random = Callable[[], float]
"""Returns a number from 0 up to, but not including, 1."""

DELAY_MS_MAX: Final = 7 * 24 * 3_600_000


class Growth(StrEnum):
    NONE = "none"
    CONSTANT = "constant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """How long a record waits before its next delivery, depending on the number of its deliveries."""

    growth: Growth = Growth.NONE
    first_ms: int = 0  # the delay after the first delivery
    step_ms: int = 0  # added to the delay for each further delivery, for linear growth
    factor: float = 2.0  # multiplies the delay for each further delivery, for exponential growth
    max_ms: int = DELAY_MS_MAX
    jitter: float = 0.0  # the largest fraction of the delay, 0 to 1, that is subtracted at random

    def delay_ms(self, delivery_count: int, random: Random) -> int:
        """Return the delay after a record's delivery number `delivery_count`, which is 1 for the first."""
        later = delivery_count - 1
        match self.growth:
            case Growth.NONE:
                return 0
            case Growth.CONSTANT:
                delay = float(self.first_ms)
            case Growth.LINEAR:
                delay = float(self.first_ms + later * self.step_ms)
            case Growth.EXPONENTIAL:
                delay = self.first_ms * self.factor ** min(later, 64)
        return int(min(delay, self.max_ms) * (1 - self.jitter * random()))


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
    back_off: BackOff = field(default_factory=BackOff)
    order: Order = Order.NONE
    mode: Mode = Mode.SHARED
    look_ahead: int = 10_000  # records whose keys or priorities are known ahead of the first available one
    is_prioritized: bool = False
    ttl_ms: int = -1  # -1: records do not expire
    tracked_max: int = 10_000  # runs and letters; beyond, no record behind the last run is acquired
    waits_at_failover: bool = False  # whether a new leader of an ordered or exclusive share waits for `lock_ms` first

    def records_at_once(self, delivery_count: int, batch_size: int) -> int | None:
        """
        Return how many records with `delivery_count` earlier deliveries are delivered together; None: no limit.

        After half of the permitted deliveries, the number is half of `batch_size`, and each further delivery halves it.
        For its last delivery, a record is delivered alone.
        """
        threshold = max(2, (self.delivery_limit + 1) // 2)
        if delivery_count < threshold:
            return None
        if delivery_count >= self.delivery_limit - 1 and self.delivery_limit > 2:
            return 1
        return max(batch_size >> (delivery_count - threshold + 1), 1)
