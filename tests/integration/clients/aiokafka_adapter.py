"""The adapter for aiokafka, whose coroutines run on an event loop in a separate thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as LibraryTopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from tests.integration.clients.client_port import (
    SESSION_MS,
    WAIT_SECONDS_MAX,
    Consuming,
    GroupDescription,
    Outgoing,
    Producing,
    Record,
    Refused,
    Sharing,
    TopicPartition,
    Unsupported,
    ask_again,
)

Answer = TypeVar("Answer")


class LoopThread:
    """An event loop in a thread, so that heartbeats and fetches continue while a case does something else."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * WAIT_SECONDS_MAX)
        except KafkaError as failure:
            raise Refused(getattr(failure, "errno", -1), f"{type(failure).__name__} {failure}") from failure

    def ask(self, ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Run a request, and repeat it while a leader or coordinator moves: aiokafka leaves the retry to the
        application.
        """
        return ask_again(lambda: self.run(ask()))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AiokafkaProducer:
    def __init__(self, loop: LoopThread, configuration: Mapping[str, Any]) -> None:
        self._loop = loop

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(**configuration)
            await producer.start()
            return producer

        self._producer = loop.run(start())

    def send(self, topic: str, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        if any(record.key is None and record.value is None for record in records):
            raise Unsupported("aiokafka cannot send a record that has neither key nor value")

        async def send_all() -> list[tuple[int, int]]:
            futures = [
                await self._producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                )
                for record in records
            ]
            answers = await asyncio.gather(*futures, return_exceptions=True)
            places = []
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                places.append((answer.partition, answer.offset))
            return places

        return self._loop.run(send_all())

    def close(self) -> None:
        self._loop.run(self._producer.stop())


class AiokafkaConsumer:
    def __init__(self, loop: LoopThread, configuration: Mapping[str, Any]) -> None:
        self._loop = loop

        async def start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(**configuration)
            await consumer.start()
            return consumer

        self._consumer = loop.run(start())

    def subscribe(self, topics: Sequence[str]) -> None:
        async def subscribe() -> None:
            self._consumer.subscribe(list(topics))

        self._loop.run(subscribe())

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        async def assign() -> None:
            self._consumer.assign([LibraryTopicPartition(*place) for place in offsets])
            for place, offset in offsets.items():
                self._consumer.seek(LibraryTopicPartition(*place), offset)

        self._loop.run(assign())

    def assignment(self) -> set[TopicPartition]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def poll(self, seconds: float) -> list[Record]:
        lots = self._loop.run(self._consumer.getmany(timeout_ms=int(seconds * 1_000)))
        return [
            Record(
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=tuple(record.headers),
            )
            for lot in lots.values()
            for record in lot
        ]

    def seek(self, place: TopicPartition, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(LibraryTopicPartition(*place), offset)

        self._loop.run(seek())

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        wanted = {LibraryTopicPartition(*place): offset for place, offset in offsets.items()}
        self._loop.ask(lambda: self._consumer.commit(wanted))

    def committed(self, place: TopicPartition) -> int | None:
        answer: int | None = self._loop.ask(lambda: self._consumer.committed(LibraryTopicPartition(*place)))
        return answer

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        asked = {LibraryTopicPartition(*place): timestamp for place, timestamp in timestamps.items()}
        answers = self._loop.ask(lambda: self._consumer.offsets_for_times(asked))
        return {(each.topic, each.partition): found and found.offset for each, found in answers.items()}

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        async def bounds() -> tuple[int, int]:
            partition = LibraryTopicPartition(*place)
            low = await self._consumer.beginning_offsets([partition])
            high = await self._consumer.end_offsets([partition])
            return low[partition], high[partition]

        return self._loop.ask(bounds)

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


class AiokafkaClient:
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._loop = LoopThread()

        async def start() -> AIOKafkaAdminClient:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=10_000)
            await admin.start()
            return admin

        self._admin = self._loop.run(start())

    def producer(
        self,
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        request_bytes_max: int = 1_000_000,
        request_timeout_ms: int = 10_000,
    ) -> Producing:
        configuration = {
            "bootstrap_servers": self.bootstrap,
            "acks": acks if acks == "all" else int(acks),
            "compression_type": None if compression == "none" else compression,
            "enable_idempotence": idempotent,
            "max_request_size": request_bytes_max,
            "max_batch_size": min(request_bytes_max, 100_000),
            "request_timeout_ms": request_timeout_ms,
            "linger_ms": 1,
        }
        return AiokafkaProducer(self._loop, configuration)

    def consumer(
        self,
        group: str | None = None,
        *,
        reset: str = "earliest",
        instance_id: str | None = None,
        fetch_bytes_max: int = 1_000_000,
    ) -> Consuming:
        configuration = {
            "bootstrap_servers": self.bootstrap,
            "group_id": group,
            "group_instance_id": instance_id,
            "enable_auto_commit": False,
            "auto_offset_reset": reset,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 500,
            "metadata_max_age_ms": 1_000,
            "fetch_max_wait_ms": 100,
            "max_partition_fetch_bytes": fetch_bytes_max,
        }
        return AiokafkaConsumer(self._loop, configuration)

    def share_consumer(self, group: str, topic: str) -> Sharing:
        raise Unsupported("aiokafka has no share consumer")

    def alter_group_config(self, group: str, key: str, value: str) -> None:
        raise Unsupported("aiokafka cannot alter the configuration of a group")

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str], *, replicas: int = 1) -> None:
        wanted = NewTopic(name, partitions, replicas, topic_configs=dict(configs))

        async def create() -> None:
            response = await self._admin.create_topics([wanted], timeout_ms=10_000)
            self._check(response.topic_errors[0])

        self._loop.ask(create)

    def delete_topic(self, name: str) -> None:
        async def delete() -> None:
            response = await self._admin.delete_topics([name], timeout_ms=10_000)
            self._check(response.topic_error_codes[0])

        self._loop.ask(delete)

    def create_partitions(self, name: str, total: int) -> None:
        wanted = {name: NewPartitions(total_count=total)}

        async def create() -> None:
            response = await self._admin.create_partitions(wanted, timeout_ms=10_000)
            self._check(response.topic_errors[0])

        self._loop.ask(create)

    def topics(self) -> dict[str, int]:
        described = self._loop.ask(self._admin.describe_topics)
        return {topic["topic"]: len(topic["partitions"]) for topic in described}

    def topic_configs(self, name: str) -> dict[str, str]:
        return self._configs(ConfigResource(ConfigResourceType.TOPIC, name))

    def broker_configs(self) -> dict[str, str]:
        cluster = self._loop.ask(self._admin.describe_cluster)
        return self._configs(ConfigResource(ConfigResourceType.BROKER, str(cluster["brokers"][0]["node_id"])))

    def _configs(self, resource: ConfigResource) -> dict[str, str]:
        (response,) = self._loop.ask(lambda: self._admin.describe_configs([resource]))
        (code, message, _, _, entries) = response.resources[0]
        self._check((resource.name, code, message))
        return {entry[0]: entry[1] for entry in entries}

    def alter_topic_config(self, name: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs={key: value})

        async def alter() -> None:
            (response,) = await self._admin.alter_configs([resource])
            (code, message, _, _) = response.resources[0]
            self._check((name, code, message))

        self._loop.ask(alter)

    def delete_records(self, place: TopicPartition, before: int) -> None:
        wanted = {LibraryTopicPartition(*place): RecordsToDelete(before_offset=before)}
        self._loop.ask(lambda: self._admin.delete_records(wanted, timeout_ms=10_000))

    def groups(self) -> set[str]:
        return {name for name, _ in self._loop.ask(self._admin.list_consumer_groups)}

    def describe_group(self, group: str) -> GroupDescription:
        async def describe() -> GroupDescription:
            (response,) = await self._admin.describe_consumer_groups([group])
            (code, name, state, _, _, members, *_) = response.groups[0]
            self._check((name, code))
            return GroupDescription(state=state.lower(), member_count=len(members))

        return self._loop.ask(describe)

    def delete_group(self, group: str) -> None:
        raise Unsupported("aiokafka's admin client has no DeleteGroups")

    def close(self) -> None:
        self._loop.run(self._admin.close())
        self._loop.close()

    @staticmethod
    def _check(answer: Sequence[Any]) -> None:
        name, code = answer[:2]
        if code:
            raise Refused(code, f"{name}: {for_code(code).__name__}")
