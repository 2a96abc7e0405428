"""A partition as clients see it: a view of its shard, with the offsets between which clients may read."""

from collections.abc import Callable
from typing import Final, Protocol

from tidemill.batches.compression import Codec
from tidemill.batches.recompression import Compression, compression_of
from tidemill.model.shard import ShardId
from tidemill.model.timer_logs import is_hidden
from tidemill.model.topic_config import TopicConfig
from tidemill.raft.entry import Entry
from tidemill.raft.replica import Replica
from tidemill.shard.commit_waiters import Waiter
from tidemill.shard.damage import Damage
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.partition_log import LogConfig, PartitionLog
from tidemill.telemetry.topic_counters import TopicCounters

# Segments in which records wait are smaller, because one that waits keeps its segment.
HIDDEN_SEGMENT_BYTES: Final = 128 << 20
REQUEST_COST: Final = 25 << 10  # in `Partition.cost`: a request takes about 25 µs, and 1 µs for each KiB


class PartitionShard(Protocol):
    """The part of a shard that partitions and their clients use."""

    @property
    def shard_id(self) -> ShardId: ...

    @property
    def replica(self) -> Replica: ...

    @property
    def log(self) -> ShardLog: ...

    @property
    def is_serving(self) -> bool: ...

    @property
    def is_unconfirmed(self) -> bool: ...

    @property
    def accepts_writes(self) -> bool: ...

    @property
    def live_voters(self) -> int: ...

    @property
    def damage(self) -> Damage: ...

    @property
    def batch_bytes_max(self) -> int: ...

    @property
    def has_replication_credit(self) -> bool: ...

    @property
    def has_timers(self) -> bool: ...

    @property
    def release_limit(self) -> int | None: ...

    def append_time(self, now_ms: int) -> int: ...

    def propose(self, entry: Entry) -> int: ...

    def move_log_start(self, partition: int, offset: int, now_ms: int) -> int: ...

    def when_committed(self, index: int, waiter: Waiter) -> None: ...

    def when_replicated(self, index: int, voter_count: int, waiter: Waiter) -> None: ...

    def stop_waiting(self, index: int, waiter: Waiter) -> None: ...

    def confirm_leadership(self, waiter: Waiter) -> None: ...

    def when_durable(self, index: int, waiter: Waiter) -> None: ...


class Partition:
    """One partition of a shard.  Only records below the high watermark are served, because only they are committed."""

    __slots__ = (
        "arrivals",
        "compression",
        "config",
        "cost",
        "counters",
        "high_watermark",
        "kept",
        "log",
        "number",
        "shard",
        "topic",
        "watchers",
    )

    def __init__(self, shard: PartitionShard, topic: str, log: PartitionLog, config: TopicConfig) -> None:
        self.shard = shard
        self.topic = topic
        self.number = log.partition
        self.log = log
        self.arrivals: Partition | None = None  # of a timer partition: the log to which producers append
        self.kept: Partition | None = None  # of a timer partition: the log of records that wait long
        # An estimate of the CPU time of requests, as the number of bytes that would take as long: REQUEST_COST for each
        # append and each read, and the bytes that were read.  `log.appended_bytes` counts those that were appended.
        self.cost = 0
        self.counters = TopicCounters()  # replaced by the topic's counters, which all its partitions share
        self.high_watermark = log.log_start
        self.watchers: dict[Callable[[], None], None] = {}  # called on a new high watermark and on loss of leadership
        self.configure(config)

    @property
    def logs(self) -> list[PartitionLog]:
        """The logs of the partition: three, if it is one of a timer topic, else its own."""
        return [self.log, *(hidden.log for hidden in (self.arrivals, self.kept) if hidden is not None)]

    @property
    def is_hidden(self) -> bool:
        """Whether records of a timer topic wait here: consumers do not read it."""
        return is_hidden(self.number)

    @property
    def log_start(self) -> int:
        return self.log.log_start

    @property
    def last_stable_offset(self) -> int:
        """The high watermark, because transactions are not implemented yet."""
        return self.high_watermark

    @property
    def leader_epoch(self) -> int:
        """The term of this broker's replica, which is the leader epoch while the replica serves."""
        return self.shard.replica.term

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        # None: every batch is stored as it was sent.  Records that wait are read one by one, so they are uncompressed.
        self.compression = Compression(Codec.NONE) if self.is_hidden else compression_of(config)
        self.log.config = LogConfig(
            segment_bytes=min(config.segment_bytes, HIDDEN_SEGMENT_BYTES) if self.is_hidden else config.segment_bytes,
            segment_ms=config.segment_ms,
            index_interval_bytes=config.index_interval_bytes,
        )
        for hidden in (self.arrivals, self.kept):
            if hidden is not None:
                hidden.configure(config)

    def watch(self, watcher: Callable[[], None]) -> None:
        self.watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        self.watchers.pop(watcher, None)

    def notify(self) -> None:
        for watcher in [*self.watchers]:
            watcher()
