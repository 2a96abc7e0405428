"""Which shards are open here, and where clients find partitions: by topic name, and by topic id.

Follows the cluster image: shards of new topics are opened, those of deleted ones closed, configurations handed on.  A
shard that is open but not in the image is left alone unless the image knew it before: missing metadata never deletes
data.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tidemill.metadata.image import ClusterImage, Topic
from tidemill.metadata.topic_configs import TopicConfigs
from tidemill.model.broker_id import BrokerId, Voter
from tidemill.model.clock import Clock
from tidemill.model.entropy import Entropy
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.model.topic import METADATA_TOPIC, METADATA_TOPIC_ID, TopicId
from tidemill.raft.voters import Membership
from tidemill.shard.partition import Partition
from tidemill.shard.shard import Shard
from tidemill.storage.shard_log import Opening, ShardLog
from tidemill.storage.store import Store

FEATURE_LEVEL: Final = 1
JITTER_MS_MAX: Final = 300


class ShardTable:
    def __init__(
        self,
        store: Store,
        me: Voter,
        configs: TopicConfigs,
        *,
        clock: Clock,
        entropy: Entropy,
        wake: Callable[[], None],
    ) -> None:
        self.shards: dict[ShardId, Shard] = {}
        self.topics: dict[str, dict[int, Partition]] = {}  # partitions that live here
        self._store = store
        self._me = me
        self._configs = configs
        self._clock = clock
        self._entropy = entropy
        self._wake = wake
        self._names: dict[TopicId, str] = {METADATA_TOPIC_ID: METADATA_TOPIC}

    def open_metadata(self, image: ClusterImage) -> Shard:
        """Shard 0, before anything else: as it was found, or new."""
        if METADATA_SHARD not in self._store.shards:
            opening = Opening(
                topic_id=METADATA_TOPIC_ID,
                first_partition=0,
                partition_count=1,
                feature_level=FEATURE_LEVEL,
                membership=Membership((self._me,)),
            )
            self._store.open_shard(METADATA_SHARD, opening)
        return self._open(self._store.shards[METADATA_SHARD], METADATA_TOPIC, image)

    def partition(self, topic: str, number: int) -> Partition | None:
        partitions = self.topics.get(topic)
        return None if partitions is None else partitions.get(number)

    def name_of(self, topic_id: TopicId) -> str | None:
        return self._names.get(topic_id)

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """Make what is open here what the image says."""
        if before.topics is not image.topics:
            for topic in image.topics.values():
                if before.topics_by_id.get(topic.topic_id) is not topic:
                    self._open_topic(topic, image)
            for topic in before.topics.values():
                if topic.topic_id not in image.topics_by_id:
                    self._close_topic(topic)
        if before.configs is not image.configs:
            for name, partitions in self.topics.items():
                config = self._configs.of(image, name)
                for partition in partitions.values():
                    if partition.config is not config:
                        partition.configure(config)
        self._wake()

    def tick(self) -> None:
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        for shard in list(self.shards.values()):
            shard.tick(now_ms, wall_ms)

    def _jitter_ms(self) -> int:
        return int.from_bytes(self._entropy.random_bytes(2)) % JITTER_MS_MAX

    def stop(self) -> None:
        for shard in self.shards.values():
            shard.stop()

    def _open_topic(self, topic: Topic, image: ClusterImage) -> None:
        self._names[topic.topic_id] = topic.name
        for shard_id in topic.shard_ids:
            planned = image.shards[shard_id]
            if shard_id in self.shards or self._me not in planned.founders:
                continue
            log = self._store.shards.get(shard_id)
            if log is None:
                if shard_id in self._store.closed:
                    continue
                opening = Opening(
                    topic_id=topic.topic_id,
                    first_partition=planned.first_partition,
                    partition_count=planned.partition_count,
                    feature_level=FEATURE_LEVEL,
                    membership=Membership(planned.founders),
                )
                log = self._store.open_shard(shard_id, opening)
            self._open(log, topic.name, image)

    def _open(self, log: ShardLog, name: str, image: ClusterImage) -> Shard:
        shard = Shard(self._store, log, self._me, name, self._configs.of(image, name), self._wake, self._jitter_ms)
        self.shards[log.shard_id] = shard
        self.topics.setdefault(name, {}).update(shard.partitions)
        shard.tick(self._clock.monotonic_ms(), self._clock.wall_ms())
        return shard

    def _close_topic(self, topic: Topic) -> None:
        self._names.pop(topic.topic_id, None)
        self.topics.pop(topic.name, None)
        for shard_id in topic.shard_ids:
            shard = self.shards.pop(shard_id, None)
            if shard is not None:
                shard.stop()
                self._store.close_shard(shard_id)


def leader_of(
    image: ClusterImage, shards: Mapping[ShardId, Shard], topic: Topic, partition: int
) -> tuple[BrokerId, int] | None:
    """(leader, confirmed epoch) as one pair; None while there is no leader that has confirmed its term."""
    shard_id = topic.shard_of(partition)
    shard = None if shard_id is None else shards.get(shard_id)
    if shard is None or not shard.is_serving:
        return None
    return shard.replica.me.broker_id, shard.replica.term
