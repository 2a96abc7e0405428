"""The durable status of a record for a share group.  The acquisition of a record by a consumer is not durable."""

from enum import IntEnum
from typing import Final, NamedTuple

from tidemill.share.interval_map import Interval


class RecordState(IntEnum):
    """The state of a record.  The numbers are part of the format, and match Kafka's where Kafka has the same state."""

    AVAILABLE = 0
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # the record is dead, and its dead letter is not written yet
    ARCHIVED = 4


class Reason(IntEnum):
    """Why a record is archived or being archived."""

    NONE = 0
    REJECTED = 1
    DELIVERY_LIMIT = 2
    EXPIRED = 3


class RecordStatus(NamedTuple):
    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    release_at: int = 0  # an available record is not delivered before this time, in ms since the epoch
    reason: Reason = Reason.NONE

    @property
    def is_finished(self) -> bool:
        """Whether the status of the record is final."""
        return self.state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


NEVER_DELIVERED: Final = RecordStatus()

Run = Interval[RecordStatus]
"""Consecutive offsets with the same status."""
