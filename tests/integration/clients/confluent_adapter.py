"""The adapter for confluent-kafka (librdkafka)."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import AcknowledgeType, Consumer, KafkaError, KafkaException, Message, Producer, ShareConsumer
from confluent_kafka import TopicPartition as LibraryTopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.integration.clients.client_port import (
    MOVED,
    SESSION_MS,
    WAIT_SECONDS_MAX,
    Acknowledgement,
    Consuming,
    Delivered,
    GroupDescription,
    Outgoing,
    Producing,
    Record,
    Refused,
    Sharing,
    TopicPartition,
    ask_again,
)

Answer = TypeVar("Answer")


def refusal(error: KafkaError) -> Refused:
    return Refused(error.code(), error.str())


def patiently(ask: Callable[[], Answer]) -> Answer:
    """Repeat `ask` while a leader or coordinator moves: librdkafka leaves the retry to the application."""

    def ask_once() -> Answer:
        try:
            return ask()
        except KafkaException as failure:
            raise refusal(failure.args[0]) from failure

    return ask_again(ask_once)


class ConfluentProducer:
    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._producer = Producer(dict(configuration))

    def send(self, topic: str, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        answers: list[tuple[KafkaError | None, Message] | None] = [None] * len(records)
        for index, record in enumerate(records):

            def answered(error: KafkaError | None, message: Message, index: int = index) -> None:
                answers[index] = (error, message)

            options: dict[str, Any] = {"key": record.key, "headers": list(record.headers), "on_delivery": answered}
            if record.partition is not None:
                options["partition"] = record.partition
            if record.timestamp is not None:
                options["timestamp"] = record.timestamp
            try:
                self._producer.produce(topic, record.value, **options)
            except KafkaException as failure:
                raise refusal(failure.args[0]) from failure
            self._producer.poll(0)
        assert self._producer.flush(WAIT_SECONDS_MAX) == 0, "some records got no response"
        places = []
        for answer in answers:
            assert answer is not None
            error, message = answer
            if error is not None:
                raise refusal(error)
            places.append((message.partition(), message.offset()))
        return places

    def close(self) -> None:
        self._producer.flush(WAIT_SECONDS_MAX)


class ConfluentConsumer:
    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._consumer = Consumer(dict(configuration))

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(list(topics))

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._consumer.assign([LibraryTopicPartition(*place, offset) for place, offset in offsets.items()])

    def assignment(self) -> set[TopicPartition]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def poll(self, seconds: float) -> list[Record]:
        message = self._consumer.poll(seconds)
        messages = [] if message is None else [message, *self._consumer.consume(10_000, timeout=0)]
        errors = [error for each in messages if (error := each.error()) is not None]
        for error in errors:
            if error.code() not in MOVED:  # after a move, librdkafka finds the new coordinator by itself
                raise refusal(error)
        return [_record(each) for each in messages if each.error() is None]

    def seek(self, place: TopicPartition, offset: int) -> None:
        # librdkafka refuses to seek until the fetcher of a fresh assignment has started.
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                self._consumer.seek(LibraryTopicPartition(*place, offset))
                return
            except KafkaException as failure:
                if failure.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise
            self._consumer.poll(0.05)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        wanted = [LibraryTopicPartition(*place, offset) for place, offset in offsets.items()]

        def commit() -> None:
            for each in self._consumer.commit(offsets=wanted, asynchronous=False) or ():
                if each.error is not None:
                    raise refusal(each.error)

        patiently(commit)

    def committed(self, place: TopicPartition) -> int | None:
        (answer,) = patiently(
            lambda: self._consumer.committed([LibraryTopicPartition(*place)], timeout=WAIT_SECONDS_MAX)
        )
        return answer.offset if answer.offset >= 0 else None

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        asked = [LibraryTopicPartition(*place, timestamp) for place, timestamp in timestamps.items()]
        answers = patiently(lambda: self._consumer.offsets_for_times(asked, timeout=WAIT_SECONDS_MAX))
        return {(each.topic, each.partition): each.offset if each.offset >= 0 else None for each in answers}

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        wanted = LibraryTopicPartition(*place)
        low, high = patiently(lambda: self._consumer.get_watermark_offsets(wanted, timeout=WAIT_SECONDS_MAX))
        return low, high

    def close(self) -> None:
        self._consumer.close()


class ConfluentShareConsumer:
    def __init__(self, configuration: Mapping[str, Any], topic: str) -> None:
        self._consumer = ShareConsumer({**configuration, "share.acknowledgement.mode": "explicit"})
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[Delivered]:
        messages = self._consumer.poll(seconds)
        errors = [error for each in messages if (error := each.error()) is not None]
        for error in errors:
            if error.code() not in MOVED:
                raise refusal(error)
        return [
            Delivered(
                place=(each.topic(), each.partition()),
                offset=each.offset(),
                value=each.value(),
                delivery_count=each.delivery_count(),
            )
            for each in messages
            if each.error() is None
        ]

    def acknowledge(self, decided: Sequence[tuple[Delivered, Acknowledgement]]) -> None:
        for record, kind in decided:
            self._consumer.acknowledge_offset(*record.place, record.offset, AcknowledgeType[kind.name])
        for failure in self._consumer.commit_sync(WAIT_SECONDS_MAX).values():
            if failure is not None:
                raise refusal(failure.args[0])

    def close(self) -> None:
        self._consumer.close()


class ConfluentClient:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = self._connected()

    def _connected(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def producer(
        self,
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        request_bytes_max: int = 1_000_000,
        request_timeout_ms: int = 10_000,
    ) -> Producing:
        return ConfluentProducer({
            "bootstrap.servers": self.bootstrap,
            "acks": acks,
            "compression.type": compression,
            "enable.idempotence": idempotent,
            "message.max.bytes": request_bytes_max,
            "socket.timeout.ms": request_timeout_ms,
            "linger.ms": 1,
            "log_level": 0,
        })  # fmt: skip

    def consumer(
        self,
        group: str | None = None,
        *,
        reset: str = "earliest",
        instance_id: str | None = None,
        fetch_bytes_max: int = 1_000_000,
    ) -> Consuming:
        configuration: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group or "contract-no-group",
            "enable.auto.commit": False,
            "auto.offset.reset": {"none": "error"}.get(reset, reset),
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "topic.metadata.refresh.interval.ms": 1_000,
            "fetch.wait.max.ms": 100,
            "fetch.message.max.bytes": fetch_bytes_max,
            "log_level": 0,
        }
        if instance_id is not None:
            configuration["group.instance.id"] = instance_id
        return ConfluentConsumer(configuration)

    def share_consumer(self, group: str, topic: str) -> Sharing:
        configuration = {"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0}
        return ConfluentShareConsumer(configuration, topic)

    def alter_group_config(self, group: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        self._answer(lambda: self._admin.incremental_alter_configs([resource])[resource])

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str], *, replicas: int = 1) -> None:
        wanted = NewTopic(name, partitions, replicas, config=dict(configs))
        self._answer(lambda: self._admin.create_topics([wanted])[name])

    def delete_topic(self, name: str) -> None:
        self._answer(lambda: self._admin.delete_topics([name])[name])

    def create_partitions(self, name: str, total: int) -> None:
        self._answer(lambda: self._admin.create_partitions([NewPartitions(name, total)])[name])

    def topics(self) -> dict[str, int]:
        listed = self._admin.list_topics(timeout=WAIT_SECONDS_MAX).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}

    def topic_configs(self, name: str) -> dict[str, str]:
        return self._configs(ConfigResource(ResourceType.TOPIC, name))

    def broker_configs(self) -> dict[str, str]:
        broker_id = min(self._admin.list_topics(timeout=WAIT_SECONDS_MAX).brokers)
        return self._configs(ConfigResource(ResourceType.BROKER, str(broker_id)))

    def _configs(self, resource: ConfigResource) -> dict[str, str]:
        described = self._answer(lambda: self._admin.describe_configs([resource])[resource])
        return {key: entry.value for key, entry in described.items()}

    def alter_topic_config(self, name: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        self._answer(lambda: self._admin.incremental_alter_configs([resource])[resource])

    def delete_records(self, place: TopicPartition, before: int) -> None:
        wanted = LibraryTopicPartition(*place, before)
        self._answer(lambda: self._admin.delete_records([wanted])[wanted])

    def groups(self) -> set[str]:
        return {each.group_id for each in self._answer(self._admin.list_consumer_groups).valid}

    def describe_group(self, group: str) -> GroupDescription:
        described = self._coordinator_answer(lambda: self._admin.describe_consumer_groups([group])[group])
        return GroupDescription(state=described.state.name.lower(), member_count=len(described.members))

    def delete_group(self, group: str) -> None:
        self._coordinator_answer(lambda: self._admin.delete_consumer_groups([group])[group])

    def close(self) -> None:
        """Do nothing: the library stops its threads when the object is collected."""

    @staticmethod
    def _answer(ask: Callable[[], Any]) -> Any:
        """Return the result of the future that `ask` returns."""
        return patiently(lambda: ask().result(WAIT_SECONDS_MAX))

    def _coordinator_answer(self, ask: Callable[[], Any]) -> Any:
        """
        Return the result of the future that `ask` returns, which is that of a request to the coordinator of a group.

        A new admin client asks after NOT_COORDINATOR.  librdkafka's admin client caches the coordinator and does not
        find the new one while the old one is up (`rd_kafka_coord_cache_evict` is called for transactions only).  A new
        client asks the broker that the cluster names.
        """

        def ask_once() -> Any:
            try:
                return ask().result(WAIT_SECONDS_MAX)
            except KafkaException as failure:
                if failure.args[0].code() == KafkaError.NOT_COORDINATOR:
                    self._admin = self._connected()
                raise

        return patiently(ask_once)


def _record(message: Message) -> Record:
    return Record(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )
