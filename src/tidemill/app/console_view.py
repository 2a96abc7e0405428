"""A broker's view of its cluster for the console.

The methods run in worker threads.  They iterate over images, which are immutable, and look up single keys in tables
that only the event loop's thread changes; neither needs a lock.
"""

from collections import Counter
from typing import Final

from tidemill.app.readiness import problems
from tidemill.broker.broker import Broker
from tidemill.client.connection_settings import Endpoint
from tidemill.console.cluster_view import (
    LEADERLESS,
    OK,
    STATES,
    UNDER_REPLICATED,
    BrokerProblem,
    BrokerRow,
    LocalReplica,
    Overview,
    PartitionRow,
    Setting,
    ShardRow,
    TopicRow,
)
from tidemill.metadata import image as planned
from tidemill.metadata.describe_configs import describe_topic
from tidemill.metadata.metadata_records import HTTP_ENDPOINT, PEER_ENDPOINT
from tidemill.model.broker_id import broker_ids
from tidemill.model.config_resolution import ConfigSource
from tidemill.model.errors import KafkaError
from tidemill.model.shard import METADATA_SHARD

KEPT_MS: Final = 1_000  # the state of all shards is computed at most once a second, for all pages
SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "this topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's settings file",
}

SHOWN_OTHERWISE: Final = frozenset({"leaderless_partitions", "under_replicated_partitions", "no_quorum_contact"})
"""The problems that the banner shows in another way: by listing the partitions, or in a separate sentence."""


class ConsoleView:
    """The broker's data for the console's pages; implements `console.cluster_view.ClusterView`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shards: tuple[int, list[ShardRow]] | None = None  # (time of computation, rows)

    def overview(self) -> Overview:
        broker, image, shards = self._broker, self._broker.image, self.shards()
        controller = broker.cluster.leaders.leader(METADATA_SHARD)
        return Overview(
            cluster_id=image.cluster_id,
            seen_by=broker.broker_id,
            controller=None if controller is None else controller.broker_id,
            brokers=len(image.brokers),
            brokers_down=[broker_id for broker_id in sorted(image.brokers) if not broker.cluster.is_up(broker_id)],
            topics=sum(not topic.is_internal for topic in image.topics.values()),
            internal_topics=sum(topic.is_internal for topic in image.topics.values()),
            partitions=sum(topic.partition_count for topic in image.topics.values()),
            shards=len(image.shards),
            has_quorum_contact=broker.cluster.has_quorum_contact,
            leaderless=[row for row in shards if row.state == LEADERLESS],
            under_replicated=[row for row in shards if row.state == UNDER_REPLICATED],
            problems=self._problems(),
        )

    def _problems(self) -> list[BrokerProblem]:
        found = (BrokerProblem(it["problem"], it["count"], it["detail"]) for it in problems(self._broker))
        return [problem for problem in found if problem.name not in SHOWN_OTHERWISE]

    def brokers(self) -> list[BrokerRow]:
        broker, image, shards = self._broker, self._broker.image, self.shards()
        led = Counter(row.leader for row in shards)
        carried = Counter(broker_id for row in shards for broker_id in row.replicas)
        controller = broker.cluster.leaders.leader(METADATA_SHARD)
        rows = []
        for broker_id, known in sorted(image.brokers.items()):
            is_self = broker_id == broker.broker_id
            endpoints = {end.name: Endpoint(end.host, end.port) for end in known.endpoints}
            http = endpoints.pop(HTTP_ENDPOINT, None)
            endpoints.pop(PEER_ENDPOINT, None)
            rows.append(
                BrokerRow(
                    broker_id=broker_id,
                    is_up=broker.cluster.is_up(broker_id),
                    is_controller=controller is not None and controller.broker_id == broker_id,
                    is_self=is_self,
                    presence=known.presence.name.lower(),
                    drain=known.drain.name.lower(),
                    silent_ms=broker.cluster.silent_ms(broker_id),
                    kafka=next(iter(endpoints.values()), None),
                    http=http,
                    rack=known.rack,
                    heartbeat_age_ms=0 if is_self else broker.cluster.peers.heartbeat_age_ms(known.voter),
                    led=led[broker_id],
                    carried=carried[broker_id],
                )
            )
        return rows

    def topics(self) -> list[TopicRow]:
        image = self._broker.image
        states: dict[str, str] = {}
        for shard in self.shards():
            if shard.state != OK:
                known = states.get(shard.topic, OK)
                states[shard.topic] = min(known, shard.state, key=STATES.index)
        return [
            TopicRow(
                name=topic.name,
                is_internal=topic.is_internal,
                partition_count=topic.partition_count,
                replication_factor=image.replication_factor(topic),
                state=states.get(topic.name, OK),
            )
            for topic in sorted(image.topics.values(), key=lambda it: (it.is_internal, it.name))
        ]

    def partitions(self, topic: str) -> list[PartitionRow] | None:
        image = self._broker.image
        known = image.topic(topic)
        if known is None:
            return None
        rows = []
        for shard in (self._shard(image, image.shards[shard_id]) for shard_id in known.shard_ids):
            for number in range(shard.first_partition, shard.last_partition + 1):
                rows.append(
                    PartitionRow(
                        number=number,
                        shard_id=shard.shard_id,
                        state=shard.state,
                        leader=shard.leader,
                        leader_epoch=shard.term,
                        replicas=shard.replicas,
                        in_sync=shard.in_sync,
                        local=self._local(topic, number),
                    )
                )
        return rows

    def settings(self, topic: str) -> list[Setting]:
        try:
            resolved = describe_topic(self._broker.image, topic, self._broker.layers)
        except KafkaError:  # the topic has just been deleted
            return []
        return [
            Setting(
                key=it.key.name,
                value=it.value,
                source=SOURCES.get(it.source, it.source.name),
                documentation=it.key.documentation,
            )
            for it in resolved
            if not it.is_default
        ]

    def shards(self) -> list[ShardRow]:
        now_ms = self._broker.clock.monotonic_ms()
        kept = self._shards
        if kept is not None and now_ms - kept[0] < KEPT_MS:
            return kept[1]
        image = self._broker.image
        rows = [self._shard(image, shard) for _, shard in sorted(image.shards.items())]
        self._shards = now_ms, rows
        return rows

    def history(self) -> dict[str, list[float]]:
        return self._broker.history.columns()

    def _shard(self, image: planned.ClusterImage, shard: planned.Shard) -> ShardRow:
        leader = self._broker.cluster.leader(shard.shard_id)
        in_sync = [] if leader is None else self._broker.cluster.in_sync(shard)
        local = self._broker.shard_table.shards.get(shard.shard_id)
        if leader is None:
            state = LEADERLESS
        else:
            state = OK if len(in_sync) == len(shard.replicas) else UNDER_REPLICATED
        return ShardRow(
            shard_id=shard.shard_id,
            topic=image.topics_by_id[shard.topic_id].name,
            first_partition=shard.first_partition,
            partition_count=shard.partition_count,
            state=state,
            leader=None if leader is None else leader.broker_id,
            term=None if leader is None else leader.term,
            replicas=broker_ids(shard.replicas),
            in_sync=in_sync,
            damage=None if local is None else local.log.damage,
        )

    def _local(self, topic: str, number: int) -> LocalReplica | None:
        partition = self._broker.shard_table.partition(topic, number)
        if partition is None:
            return None
        return LocalReplica(
            is_leader=partition.shard.is_serving,
            start_offset=partition.log_start,
            end_offset=partition.high_watermark,
            size_bytes=partition.log.size_bytes,
        )
