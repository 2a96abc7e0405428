"""A group's share of a partition that this broker leads."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tidemill.model.errors import KafkaError
from tidemill.model.topic import TopicId
from tidemill.shard.partition import Partition
from tidemill.share.blockage import blocked_by
from tidemill.share.claim import Acquired
from tidemill.share.leases import Leases
from tidemill.share.record_status import Reason, RecordState, Run
from tidemill.share.share import Share
from tidemill.share.time_to_live import TimeToLive
from tidemill.telemetry.queue_counters import QueueCounters

RECORD_BYTES_GUESS: Final = 1_000  # the size of a record, before any has been read


class ShareKey(NamedTuple):
    """Identifies a share in the cluster."""

    group: str
    topic_id: TopicId
    partition: int


class LedShare:
    """The durable state of a share, and what its leader knows beyond it."""

    __slots__ = (
        "counters",
        "is_opening",
        "key",
        "leases",
        "letter_problem",
        "partition",
        "problem",
        "record_bytes",
        "share",
        "sparseness",
        "watcher",
    )

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        share: Share,
        leases: Leases,
        counters: QueueCounters,
        watcher: Callable[[], None],
    ) -> None:
        self.counters = counters
        self.key = key
        self.partition = partition
        self.share = share
        self.leases = leases
        self.letter_problem: str | None = None  # why dead letters are not written; None: they are, or there are none
        self.record_bytes = RECORD_BYTES_GUESS  # of an average record of the last read
        self.sparseness = 1.0  # offsets for each available record in the last read: more than 1 among finished ones
        self.is_opening = False  # whether batches are being opened for the look-ahead
        self.problem: KafkaError | None = None  # why batches could not be opened, until a fetch is answered with it
        self.watcher = watcher  # called when the partition's high watermark has moved
        partition.watch(watcher)

    @property
    def time_to_live(self) -> TimeToLive:
        return TimeToLive(self.leases.settings.ttl_ms, self.partition.config.has_ttl_headers)

    @property
    def blocked_by(self) -> str | None:
        """Why available records are not delivered, or dead ones are not finished, for an administrator; else None."""
        reason = blocked_by(self.share, self.leases, self.partition.high_watermark)
        waits = None if self.letter_problem is None else f"dead letters wait: {self.letter_problem}"
        return "; ".join(it for it in (reason, waits) if it is not None) or None

    def has_available(self, wall: int) -> bool:
        """Return whether a consumer could acquire a record now."""
        leases = self.leases
        if leases.lock_room <= 0 or leases.resume_at is not None:
            return False
        return leases.next_available(self.share.start, self.partition.high_watermark, wall) is not None

    def withheld_ms(self, now: int) -> int:
        """
        Return how many milliseconds this leader still withholds available records from all consumers; 0: it does not.

        It does so because of tidemill.share.failover.wait, and while it opens the batches of the look-ahead.  The
        latter takes a short, unknown time, for which this returns 1.  `now` is monotonic time in ms.
        """
        if self.leases.resume_at is not None:
            return max(self.leases.resume_at - now, 1)
        return int(self.is_opening)

    def count_acquired(self, acquired: Iterable[Acquired]) -> None:
        counters = self.counters
        for first, end, delivery_count in acquired:
            counters.records_acquired += end - first
            if delivery_count > 1:
                counters.records_redelivered += end - first

    def count_released(self, runs: Iterable[Run]) -> None:
        """Count decisions about records that a consumer returned without an attempt to finish them."""
        for first, end, status in runs:
            if status.state == RecordState.AVAILABLE or status.reason == Reason.DELIVERY_LIMIT:
                self.counters.records_released += end - first

    def count_decided(self, runs: Iterable[Run]) -> None:
        """Count decisions that finish records.  Offsets without a record for consumers have no reason."""
        counters = self.counters
        for first, end, status in runs:
            if status.state == RecordState.ACKNOWLEDGED:
                counters.records_accepted += end - first
            elif status.reason != Reason.NONE:
                counters.records_archived += end - first
                if status.reason == Reason.REJECTED:
                    counters.records_rejected += end - first

    def close(self) -> None:
        self.partition.unwatch(self.watcher)
