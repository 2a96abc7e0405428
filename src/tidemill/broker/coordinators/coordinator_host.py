"""The coordinators of groups on this broker: one for each partition of `__consumer_offsets` that is led here.

The topic is made when a group is first asked for.  From then on every partition that is led here is loaded as soon as
it is, and not when somebody asks: sessions and offsets run out whether anybody asks or not.
"""

from collections.abc import Callable
from typing import Any, Final

from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.coordinators.coordinated_partition import CoordinatedPartition
from tidemill.broker.machine import Machine
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.coordinator.group.group_partition import partition_for
from tidemill.coordinator.group.group_settings import GroupSettings
from tidemill.coordinator.group.groups import Groups
from tidemill.coordinator.group.refusal import refused
from tidemill.coordinator.group.requests import ForgetTopics, GroupRequest
from tidemill.metadata.image import ClusterImage
from tidemill.model import errors
from tidemill.model.config_resolution import BrokerLayers, broker_int
from tidemill.model.shard import METADATA_SHARD
from tidemill.model.topic import NO_TOPIC_ID, OFFSETS_TOPIC, TopicId
from tidemill.shard.shard import Shard

DELETED_MAX: Final = 10_000  # of which is remembered that they are gone: else their offsets stay until they expire


class CoordinatorHost:
    def __init__(
        self,
        *,
        machine: Machine,
        controller: ControllerHost,
        shard_table: ShardTable,
        layers: Callable[[], BrokerLayers],
        create: Callable[[str, Callable[[int], None]], None],
        storage_problem: Callable[[], str | None],
        is_isolated: Callable[[], bool],
    ) -> None:
        self._machine = machine
        self._controller = controller
        self._shard_table = shard_table
        self._layers = layers
        self._create = create
        self._storage_problem = storage_problem
        self._is_isolated = is_isolated
        self._hosted: dict[int, CoordinatedPartition] = {}
        self._waiting: list[Callable[[], None]] = []  # for the topic; bounded by the requests that are in flight
        self._is_creating = False
        self._is_stopped = False
        self._deleted: dict[TopicId, None] = {}  # topics that have gone since the start; the newest last

    def partition_of(self, group_id: str) -> int | None:
        """The partition of `__consumer_offsets` that the group belongs to; None while there is no such topic."""
        topic = self._controller.image.topic(OFFSETS_TOPIC)
        return None if topic is None else partition_for(group_id, topic.partition_count)

    def hosted(self) -> list[CoordinatedPartition]:
        """All that are coordinated here, loaded or not."""
        return list(self._hosted.values())

    def ask(self, group_id: str, request: GroupRequest) -> None:
        """`request.waiter` is an Answer: it is called once, with the reply of the request's kind."""
        number = self.partition_of(group_id)
        hosted = None if number is None else self._hosted.get(number)
        if hosted is not None:
            hosted.ask(request)
        else:
            self.when_there(lambda: self._ask_there(group_id, request))

    def _ask_there(self, group_id: str, request: GroupRequest) -> None:
        number = self.partition_of(group_id)
        hosted = None if number is None else self._hosted.get(number)
        if hosted is not None:
            hosted.ask(request)
            return
        answer: Any = getattr(request, "waiter", None)
        answer(refused(request, errors.COORDINATOR_NOT_AVAILABLE if number is None else errors.NOT_COORDINATOR))

    def when_there(self, callback: Callable[[], None]) -> None:
        """Called when `__consumer_offsets` exists and its shards are led, now if so; also when that cannot be had."""
        if self._is_stopped or (self._controller.image.topic(OFFSETS_TOPIC) is not None and not self._is_creating):
            callback()
            return
        self._waiting.append(callback)
        if not self._is_creating:
            self._is_creating = True
            self._create(OFFSETS_TOPIC, self._created)

    def _created(self, code: int) -> None:
        """It is there, and led somewhere; or it cannot be had now."""
        if code:
            self._machine.events.error("no groups", problem=f"{OFFSETS_TOPIC} cannot be created: error {code}")
        self._is_creating = False
        self._there()

    def _there(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def begin(self) -> None:
        """Load every partition that is led here and not yet coordinated."""
        if self._is_stopped:
            return
        for number, partition in self._shard_table.topics.get(OFFSETS_TOPIC, {}).items():
            if number in self._hosted or not partition.shard.is_serving:
                continue
            hosted = CoordinatedPartition(
                partition,
                Groups(group_settings(self._layers()), self._machine.entropy, self._topic_id_of),
                self._machine,
                storage_problem=self._storage_problem,
                is_isolated=self._is_isolated,
                loaded=self._forget_missing,
            )
            self._hosted[number] = hosted
            hosted.load()

    def serving_changed(self, shard: Shard) -> None:
        """What is led here is loaded; what is led here no longer is dropped, for whoever leads it now."""
        if shard.topic != OFFSETS_TOPIC:
            return
        if shard.is_serving:
            self.begin()
            return
        for number in shard.partitions:
            hosted = self._hosted.pop(number, None)
            if hosted is not None:
                hosted.drop(errors.NOT_COORDINATOR)

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """The image has changed, and the shard table has followed it."""
        if before.topics is image.topics:
            return
        for number, hosted in list(self._hosted.items()):
            if self._shard_table.partition(OFFSETS_TOPIC, number) is not hosted.partition:
                del self._hosted[number]
                hosted.drop(errors.NOT_COORDINATOR)
        gone = frozenset(topic_id for topic_id in before.topics_by_id if topic_id not in image.topics_by_id)
        if gone:
            self._forget(gone)

    def stop(self) -> None:
        self._is_stopped = True
        for hosted in self._hosted.values():
            hosted.drop(errors.NOT_COORDINATOR)
        self._there()

    def _forget(self, topic_ids: frozenset[TopicId]) -> None:
        """Committed offsets go with their topic; a partition that still loads looks by itself when it is done."""
        self._deleted |= dict.fromkeys(topic_ids)
        for topic_id in [*self._deleted][:-DELETED_MAX]:
            del self._deleted[topic_id]
        for hosted in self._hosted.values():
            if hosted.is_loaded:
                hosted.ask(ForgetTopics(topic_ids=topic_ids))

    def _forget_missing(self, hosted: CoordinatedPartition) -> None:
        """
        Topics may have gone while nobody coordinated.  That one is missing says so only where the image is complete,
        at the controller; elsewhere it may not be heard of yet, and its offsets must stay.
        """
        known = self._controller.image.topics_by_id
        missing = frozenset(it for it in hosted.topic_ids() if it != NO_TOPIC_ID and it not in known)
        deleted = missing & self._deleted.keys()
        if deleted:
            hosted.ask(ForgetTopics(topic_ids=deleted))
        if missing - deleted:
            self._shard_table.shards[METADATA_SHARD].confirm_leadership(
                lambda leads: hosted.ask(ForgetTopics(topic_ids=missing)) if leads else None
            )

    def _topic_id_of(self, name: str) -> TopicId | None:
        topic = self._controller.image.topic(name)
        return None if topic is None else topic.topic_id


def group_settings(layers: BrokerLayers) -> GroupSettings:
    """The broker's keys of groups, as they stand when a partition is loaded."""
    return GroupSettings(
        session_timeout_ms_min=broker_int(layers, "group.min.session.timeout.ms"),
        session_timeout_ms_max=broker_int(layers, "group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=broker_int(layers, "group.initial.rebalance.delay.ms"),
        size_max=broker_int(layers, "group.max.size"),
        offsets_retention_ms=broker_int(layers, "offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=broker_int(layers, "offsets.retention.check.interval.ms"),
        offset_metadata_bytes_max=broker_int(layers, "offset.metadata.max.bytes"),
    )
