"""The shards that are open on this broker, and their partitions by topic name and topic id.

The table follows the cluster image: it opens the shards that are planned here, closes those of deleted topics, and
configures partitions.  A shard whose topic exists is closed only if both the image and the shard's leader say that this
broker is no longer a member: by the image alone, the last copy of an entry that a majority does not have yet could go.
An open shard of a deleted topic is closed only if an earlier image contained its topic and the new one does not, so
that missing metadata never causes data to be deleted.

A closed shard that is planned here again is opened once the old files are gone, and waits for a snapshot.  It keeps its
term, its vote, and the last entry that it had, by which it votes until then: a candidate that lacks entries to whose
majority the former replica belonged must not win with the vote of the empty one.
"""

from collections.abc import Callable
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.metadata.image import Shard as PlannedShard
from tidemill.metadata.topic_configs import TopicConfigs
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.model.topic import METADATA_TOPIC, METADATA_TOPIC_ID, TopicId
from tidemill.model.topic_kind import TopicKind
from tidemill.raft.messages import AppendEntries, Message, Released, SnapshotChunk, SnapshotOffer
from tidemill.raft.voters import Membership
from tidemill.shard.copy_pacing import CopyPacing
from tidemill.shard.jobs import Workers
from tidemill.shard.partition import Partition
from tidemill.shard.raft_transport import RaftTransport
from tidemill.shard.shard import Shard, ShardObserver
from tidemill.storage.journal.shard_log import LEVEL_WITH_KIND, LOG_KIND, TIMER_KIND, ShardDescriptor, ShardLog
from tidemill.storage.store import Store
from tidemill.telemetry.topic_counters import CountersByTopic

FEATURE_LEVEL: Final = 1
JITTER_MS_MAX: Final = 300
RESTORING_MS: Final = 500  # head start of replicas whose state is complete: the others could not serve all requests
FIRST_JITTER_MS: Final = 200  # head start of the preferred leader in the first election of a new shard
EARLY_MAX: Final = 1_000  # messages kept for shards that are not open yet: the newest from each sender for each shard

# Messages of these types are not kept for a shard that is not open yet: they would keep entire frames in memory, and
# their senders repeat them.
_WITH_BYTES: Final = (AppendEntries, SnapshotOffer, SnapshotChunk)


class ShardTable:
    def __init__(
        self,
        store: Store,
        me: ReplicaKey,
        configs: TopicConfigs,
        machine: Machine,
        *,
        counters: CountersByTopic,
        wake: Callable[[], None],
        transport: RaftTransport,
        observer: ShardObserver,
        pacing: CopyPacing | None = None,
    ) -> None:
        """
        `wake` is called when a shard has queued something for the journal.  Without `pacing`, the copies of replicas
        that this broker sends do not wait for each other.
        """
        self.shards: dict[ShardId, Shard] = {}
        self.topics: dict[str, dict[int, Partition]] = {}  # topic name → partition number → partition on this broker
        self._store = store
        self._me = me
        self._configs = configs
        self._counters = counters
        self._clock = machine.clock
        self._entropy = machine.entropy
        self._wake = wake
        self._transport = transport
        self._observer = observer
        self._pacing = pacing
        self._workers = Workers(machine.read_jobs, machine.background_jobs, machine.failed)
        self._events = machine.events
        self.released_count = 0  # replicas closed because their shards are placed on other brokers
        self.is_electing = False  # whether any replica waits to campaign because its shard has no leader
        self._alive: frozenset[ReplicaKey] = frozenset()
        self._early: dict[tuple[ShardId, ReplicaKey], Message] = {}
        self._names: dict[TopicId, str] = {METADATA_TOPIC_ID: METADATA_TOPIC}
        self._image: ClusterImage | None = None  # the newest
        self._reopening: set[ShardId] = set()  # planned here again, while files of the former replica are left

    def open_metadata(self, image: ClusterImage, *, is_initial_voter: bool) -> Shard:
        """
        Open shard 0, which must be the first shard to open.  If the store does not contain it, create it: with this
        broker as its only voter, or, on a joining broker, without any voters, which that broker then learns from the
        log.
        """
        if METADATA_SHARD not in self._store.shards:
            descriptor = ShardDescriptor(
                topic_id=METADATA_TOPIC_ID,
                first_partition=0,
                partition_count=1,
                feature_level=FEATURE_LEVEL,
                membership=Membership((self._me,)) if is_initial_voter else Membership((), (self._me,)),
            )
            self._store.open_shard(METADATA_SHARD, descriptor)
        return self._open(self._store.shards[METADATA_SHARD], METADATA_TOPIC, image)

    def partition(self, topic: str, number: int) -> Partition | None:
        partitions = self.topics.get(topic)
        return None if partitions is None else partitions.get(number)

    def name_of(self, topic_id: TopicId) -> str | None:
        return self._names.get(topic_id)

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """Open, close and configure shards so that they match `image`."""
        self._image = image
        if before.topics is not image.topics or before.shards is not image.shards:
            for topic in before.topics.values():
                if topic.topic_id not in image.topics_by_id:
                    self._close_topic(topic)  # before any topic is opened, because a new topic may have the same name
            for topic in image.topics.values():
                self._open_topic(topic, image)
        if before.configs is not image.configs:
            for name, partitions in self.topics.items():
                config = self._configs.of(image, name)
                for partition in partitions.values():
                    if partition.config is not config:
                        partition.configure(config)
        self._wake()

    def tick(self, alive: frozenset[ReplicaKey] = frozenset()) -> None:
        """Tick each shard that needs it, or all shards if the live peers (`alive`) have changed since the last call."""
        if self._reopening:
            self._reopen()
        everybody = alive != self._alive
        self._alive = alive
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        self.is_electing = False
        for shard in list(self.shards.values()):
            if everybody or shard.needs_tick:
                shard.tick(now_ms, wall_ms)
                replica = shard.replica
                if shard.needs_tick and not (replica.leads or replica.is_damaged or replica.installing):
                    self.is_electing = True

    def receive(self, sender: ReplicaKey, shard_id: ShardId, message: Message) -> None:
        """
        Deliver a message to this broker's replica of a shard.  A message for a shard that is not open yet is kept,
        because the sender may know of a new shard before this broker does.
        """
        shard = self.shards.get(shard_id)
        if shard is not None:
            shard.receive(sender, message)
            if isinstance(message, Released) and shard.replica.is_released(message) and not self._is_planned(shard_id):
                self._release(shard)
            return
        may_open = shard_id not in self._store.closed or shard_id in self._reopening
        has_room = len(self._early) < EARLY_MAX or (shard_id, sender) in self._early
        if may_open and has_room and not isinstance(message, _WITH_BYTES):
            self._early[shard_id, sender] = message

    def peer_restarted(self, voter: ReplicaKey) -> None:
        for shard in self.shards.values():
            shard.peer_restarted(voter)

    def peer_reconnected(self, voter: ReplicaKey) -> None:
        for shard in list(self.shards.values()):
            shard.peer_reconnected(voter)

    def _jitter_ms(self, log: ShardLog) -> int:
        if not log.term and log.descriptor.membership.voters[:1] == (self._me,):
            return 0
        drawn = int.from_bytes(self._entropy.random_bytes(2)) % JITTER_MS_MAX
        if not log.machines.are_restored:
            drawn += RESTORING_MS
        return drawn if log.term else FIRST_JITTER_MS + drawn

    def stop(self) -> None:
        for shard in self.shards.values():
            shard.stop()

    def _open_topic(self, topic: Topic, image: ClusterImage) -> None:
        self._names[topic.topic_id] = topic.name
        for shard_id in topic.shard_ids:
            planned = image.shards[shard_id]
            if shard_id in self.shards:
                continue
            log = self._store.shards.get(shard_id) or self._create(topic, planned)
            if log is not None:
                self._open(log, topic.name, image)

    def _create(self, topic: Topic, planned: PlannedShard) -> ShardLog | None:
        """Create this broker's replica of a shard; None if it is to have none, or not yet."""
        shard_id, me, is_timer = planned.shard_id, self._me, topic.kind == TopicKind.TIMER
        self._reopening.discard(shard_id)
        if shard_id in self._store.closed:
            if me not in planned.replicas:
                return None
            if not self._store.may_open(shard_id):
                self._reopening.add(shard_id)
                return None
            membership = Membership((), (me,))
        elif me in planned.initial_voters:  # even if it is not planned any more: the others may need its vote
            membership = Membership(planned.initial_voters)
        elif me in planned.replicas:
            membership = Membership(planned.initial_voters, (me,))
        else:
            return None
        descriptor = ShardDescriptor(
            topic_id=topic.topic_id,
            first_partition=planned.first_partition,
            partition_count=planned.partition_count,
            feature_level=LEVEL_WITH_KIND if is_timer else FEATURE_LEVEL,
            membership=membership,
            kind=TIMER_KIND if is_timer else LOG_KIND,
        )
        return self._store.open_shard(shard_id, descriptor)

    def _reopen(self) -> None:
        """Try again to open the shards whose former files had to go first."""
        image = self._image
        assert image is not None, "shards are reopened because of an image"
        for shard_id in [*self._reopening]:
            planned = image.shards.get(shard_id)
            if planned is None:
                self._reopening.discard(shard_id)
            else:
                self._open_topic(image.topics_by_id[planned.topic_id], image)

    def _open(self, log: ShardLog, name: str, image: ClusterImage) -> Shard:
        shard = Shard(
            self._store,
            log,
            self._me,
            name,
            self._configs.of(image, name),
            wake=self._wake,
            jitter_ms=lambda: self._jitter_ms(log),
            transport=self._transport,
            observer=self._observer,
            workers=self._workers,
            # Every broker learns the cluster's metadata, which is no move.
            pacing=None if log.shard_id == METADATA_SHARD else self._pacing,
        )
        counters = self._counters.of(name)
        for partition in shard.partitions.values():
            partition.counters = counters
        self.shards[log.shard_id] = shard
        self.topics.setdefault(name, {}).update(shard.released)
        shard.tick(self._clock.monotonic_ms(), self._clock.wall_ms())
        for shard_id, sender in [key for key in self._early if key[0] == log.shard_id]:
            shard.receive(sender, self._early.pop((shard_id, sender)))
        return shard

    def _close_topic(self, topic: Topic) -> None:
        self._names.pop(topic.topic_id, None)
        self.topics.pop(topic.name, None)
        self._counters.forget(topic.name)
        for shard_id in topic.shard_ids:
            shard = self.shards.get(shard_id)
            if shard is not None:
                self._close(shard)

    def _close(self, shard: Shard) -> None:
        del self.shards[shard.shard_id]
        shard.stop()
        self._store.close_shard(shard.shard_id)

    def _is_planned(self, shard_id: ShardId) -> bool:
        planned = None if self._image is None else self._image.shards.get(shard_id)
        return planned is None or self._me in planned.replicas

    def _release(self, shard: Shard) -> None:
        """Close a shard of which this broker is no longer a member."""
        partitions = self.topics[shard.topic]
        for number in shard.released:
            del partitions[number]
        if not partitions:
            del self.topics[shard.topic]
        self._close(shard)
        self.released_count += 1
        self._events.event("replica released", shard=shard.shard_id, topic=shard.topic)
        self._wake()
