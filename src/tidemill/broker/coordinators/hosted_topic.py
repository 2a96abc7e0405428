"""HostedTopic: the coordinator of one internal topic on this broker, with a core for each partition that it leads.

The topic is created when the coordinator is first needed.  After that, each partition is loaded as soon as this broker
leads it, rather than at the first request, because deadlines must also expire when there are no requests.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, Protocol

from tidemill.broker.coordinators.coordinator_registration import CoordinatorRegistration, CoreContext
from tidemill.broker.coordinators.hosted_partition import Answer, CoreT, HostedPartition
from tidemill.broker.coordinators.replicated_core import RequestT
from tidemill.broker.machine import Machine
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.model import errors
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.shard import METADATA_SHARD
from tidemill.model.topic import NO_TOPIC_ID, TopicId
from tidemill.shard.pending import OutcomeUnknown
from tidemill.shard.shard import Shard

DELETED_MAX: Final = 10_000  # how many deleted topics are remembered; state of earlier ones is kept until it expires


class HostingBroker(Protocol):
    """The part of the broker that coordinators use."""

    @property
    def machine(self) -> Machine: ...

    @property
    def shard_table(self) -> ShardTable: ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def layers(self) -> BrokerLayers: ...

    @property
    def has_stale_metadata(self) -> bool:
        """Whether other brokers may have a newer image than this one."""
        ...

    def storage_problem(self) -> str | None:
        """Return why appends are refused now; None if they are accepted."""
        ...

    def create_internal_topic(self, name: str, created: Callable[[int], None]) -> None:
        """Create the topic.  `created` is called with 0 when its shards have leaders, or with an error code."""
        ...


class HostedTopic(Generic[RequestT, CoreT]):
    """The coordinator of one internal topic.  Implements `PartitionOwner` for its partitions."""

    def __init__(self, registration: CoordinatorRegistration[RequestT, CoreT], broker: HostingBroker) -> None:
        self.registration = registration
        self._broker = broker
        self._name = registration.topic.name
        self._hosted: dict[int, HostedPartition[RequestT, CoreT]] = {}
        self._waiting: list[Callable[[], None]] = []  # callbacks of `when_created`; at most one per request in flight
        self._is_creating = False
        self._is_stopped = False
        self._deleted: dict[TopicId, None] = {}  # topics deleted since the start of this process, oldest first

    @property
    def topic(self) -> Topic | None:
        """The internal topic; None while it does not exist."""
        return self._broker.image.topic(self._name)

    def partition_of(self, key: str) -> int | None:
        """Return the number of the partition that coordinates `key`; None while the topic does not exist."""
        topic = self.topic
        return None if topic is None else self.registration.partition_for(key, topic.partition_count)

    def hosted(self) -> list[HostedPartition[RequestT, CoreT]]:
        """Return the partitions that this broker leads, loaded or not."""
        return list(self._hosted.values())

    # Methods that pass requests to the coordinator.

    def ask(self, key: str, request: RequestT, answer: Answer | None) -> None:
        """
        Let the partition of `key` decide `request`, after creating the topic if necessary.  `answer` is called once:
        with the reply, or with a rejection if another broker leads the partition.
        """
        hosted = self._find(key)
        if hosted is not None:
            hosted.ask(request, answer)
        else:
            self.when_created(lambda: self._ask_created(key, request, answer))

    def _find(self, key: str) -> HostedPartition[RequestT, CoreT] | None:
        number = self.partition_of(key)
        return None if number is None else self._hosted.get(number)

    def _ask_created(self, key: str, request: RequestT, answer: Answer | None) -> None:
        hosted = self._find(key)
        if hosted is not None:
            hosted.ask(request, answer)
        elif answer is not None:
            code = errors.COORDINATOR_NOT_AVAILABLE if self.topic is None else errors.NOT_COORDINATOR
            answer(self.rejection(request, code))

    def when_created(self, callback: Callable[[], None]) -> None:
        """
        Create the topic if necessary.  Call `callback` when it exists and its shards have leaders, or when the attempt
        has failed.
        """
        if self._is_stopped or (self.topic is not None and not self._is_creating):
            callback()
            return
        self._waiting.append(callback)
        if not self._is_creating:
            self._is_creating = True
            self._broker.create_internal_topic(self._name, self._created)

    def _created(self, code: int) -> None:
        if code and not self._is_stopped:  # a stop ends every attempt, which is no error
            self._broker.machine.events.error("internal topic not created", topic=self._name, error=code)
        self._is_creating = False
        self._call_waiting()

    def _call_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    # Methods that load and drop partitions when leadership changes.

    def begin(self) -> None:
        """Load every partition that this broker leads but does not host yet."""
        if self._is_stopped:
            return
        broker, registration = self._broker, self.registration
        for number, partition in broker.shard_table.topics.get(self._name, {}).items():
            if number in self._hosted or not partition.shard.is_serving:
                continue
            entropy = broker.machine.entropy
            context = CoreContext(layers=lambda: self._broker.layers, entropy=entropy, image=lambda: self._broker.image)
            hosted = HostedPartition(partition, registration.new_core(context), broker.machine, self)
            self._hosted[number] = hosted
            hosted.load()

    def serving_changed(self, shard: Shard) -> None:
        """Load the partitions of `shard` if this broker now leads it; drop them if it no longer does."""
        if shard.topic != self._name:
            return
        if shard.is_serving:
            self.begin()
            return
        for number in shard.partitions:
            hosted = self._hosted.pop(number, None)
            if hosted is not None:
                hosted.drop(errors.NOT_COORDINATOR)

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """Remove the state of deleted topics.  The internal topic itself is never deleted."""
        if before.topics is image.topics:
            return
        deleted = frozenset(topic_id for topic_id in before.topics_by_id if topic_id not in image.topics_by_id)
        if deleted:
            self._forget(deleted)

    def stop(self) -> None:
        """Drop every partition, for a clean stop of the broker."""
        self._is_stopped = True
        for hosted in self._hosted.values():
            hosted.drop(errors.NOT_COORDINATOR)
        self._call_waiting()

    # Methods of the protocol `PartitionOwner`.

    def rejection(self, request: RequestT, reason: int | OutcomeUnknown) -> object:
        return self.registration.rejection(request, reason)

    def storage_problem(self) -> str | None:
        return self._broker.storage_problem()

    def has_stale_metadata(self) -> bool:
        return self._broker.has_stale_metadata

    def committed(self) -> None:
        """Do nothing: replies depend only on the partition's own log."""

    def loaded(self, hosted: HostedPartition[Any, Any]) -> None:
        """
        Remove the state of topics that were deleted while the partition had no loaded leader.  A topic that is missing
        from this broker's image might also be a new topic that the image does not contain yet.  Only the controller can
        rule that out; other brokers remove only the state of topics whose deletion they have seen.
        """
        registration = self.registration.deleted_topics
        if registration is None:
            return
        forget = registration.forget
        known = self._broker.image.topics_by_id
        referred = registration.topic_ids(hosted.core)
        missing = frozenset(it for it in referred if it != NO_TOPIC_ID and it not in known)
        deleted = missing & self._deleted.keys()
        if deleted:
            hosted.ask(forget(deleted), None)
        if missing - deleted:
            self._broker.shard_table.shards[METADATA_SHARD].confirm_leadership(
                lambda leads: hosted.ask(forget(missing), None) if leads else None
            )

    def _forget(self, topic_ids: frozenset[TopicId]) -> None:
        """
        Remove the state of deleted topics from all loaded partitions.  For other partitions, `loaded` does so later.
        """
        registration = self.registration.deleted_topics
        if registration is None:
            return
        self._deleted |= dict.fromkeys(topic_ids)
        for topic_id in [*self._deleted][:-DELETED_MAX]:
            del self._deleted[topic_id]
        for hosted in self._hosted.values():
            if hosted.is_loaded:
                hosted.ask(registration.forget(topic_ids), None)
