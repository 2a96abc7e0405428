"""A partition as clients see it: a view on its shard, with the bounds of reading."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.model.topic_config import TopicConfig
from tidemill.storage.partition_log import LogConfig, PartitionLog

if TYPE_CHECKING:
    from tidemill.shard.shard import Shard


class Partition:
    """Offsets.  The high watermark is the end of what is committed; nothing behind it is served."""

    __slots__ = ("config", "high_watermark", "log", "number", "shard", "topic", "watchers")

    def __init__(self, shard: "Shard", topic: str, log: PartitionLog, config: TopicConfig) -> None:
        self.shard = shard
        self.topic = topic
        self.number = log.partition
        self.log = log
        self.high_watermark = log.log_start
        self.watchers: dict[Callable[[], None], None] = {}  # called when the high watermark has moved
        self.configure(config)

    @property
    def log_start(self) -> int:
        return self.log.log_start

    @property
    def last_stable_offset(self) -> int:
        """The high watermark, as long as there are no transactions."""
        return self.high_watermark

    @property
    def leader_epoch(self) -> int:
        """The confirmed epoch of the leader here."""
        return self.shard.replica.term

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        self.log.config = LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            index_interval_bytes=config.index_interval_bytes,
        )

    def watch(self, watcher: Callable[[], None]) -> None:
        self.watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        self.watchers.pop(watcher, None)

    def notify(self) -> None:
        for watcher in [*self.watchers]:
            watcher()
