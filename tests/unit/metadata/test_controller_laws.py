"""Invariants of the controller that hold after any sequence of commands."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.metadata.controller_world import CountingEntropy
from tidemill.metadata.admission import AdmitBroker
from tidemill.metadata.apply import apply
from tidemill.metadata.brokers import BootstrapCluster, GrowReplicas, RegisterBroker
from tidemill.metadata.configs import AlterConfigs, Change, IncrementalAlterConfigs, Operation
from tidemill.metadata.controller import Controller
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.features import UpdateFeatures
from tidemill.metadata.image import EMPTY
from tidemill.metadata.metadata_records import ConfigResource, Endpoint, Record, ShardRecord, decode, encode
from tidemill.metadata.partitions import CreatePartitions, MorePartitions
from tidemill.metadata.producer_ids import AllocateProducerIds
from tidemill.metadata.snapshot import snapshot_records
from tidemill.metadata.topics import CreateInternalTopic, CreateTopics, DeleteTopics, NewTopic
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.model.topic import OFFSETS_TOPIC

names = st.sampled_from(["a", "b", "a.b", "a_b", "c-d", "__x", OFFSETS_TOPIC, "no/name"])
keys = st.sampled_from(["retention.ms", "segment.ms", "cleanup.policy", "flush.ms", "log.retention.ms", "nonsense"])
values = st.sampled_from(["1", "-1", "7000", "delete", "true", "x"])
levels = st.integers(1, 4)
resources = st.builds(ConfigResource, st.sampled_from([2, 4, 32]), names | st.sampled_from(["", "1"]))


class AnyCommands(RuleBasedStateMachine):
    @initialize(level=levels)
    def found(self, level: int) -> None:
        self.controller = Controller(EMPTY, broker_id=BrokerId(1), static={}, entropy=CountingEntropy())
        self.log: list[Record] = []
        self.shards_ever: set[ShardId] = set()
        self.producer_ids: list[range] = []
        self.live: frozenset[BrokerId] | None = None
        founder = ReplicaKey(BrokerId(1), DirectoryId(bytes(15) + b"\x01"))
        self.do(BootstrapCluster(cluster_id="c", voter=founder, level=level))
        self.register(1, 9092, level)

    def do(self, command: Any) -> Any:
        before = self.controller.image
        result = self.controller.decide(command, 0, live=self.live)
        assert before is self.controller.image
        for record in result.records:
            if isinstance(record, ShardRecord):
                assert record.shard_id not in self.shards_ever, "a shard id is used once"
                self.shards_ever.add(record.shard_id)
        self.log += [decode(encode(record)) for record in result.records]
        self.controller.replay(result.records)
        return result.response

    @rule(broker_id=st.integers(0, 9), port=st.integers(1, 3), level=levels)
    def register(self, broker_id: int, port: int, level: int) -> None:
        endpoints = (Endpoint("PLAINTEXT", "h", port, "PLAINTEXT"),)
        known = self.controller.image.brokers.get(BrokerId(broker_id))
        directory_id = DirectoryId(bytes(15) + bytes([broker_id])) if known is None else known.directory_id
        command = RegisterBroker(
            broker_id=BrokerId(broker_id), directory_id=directory_id, endpoints=endpoints, level=level
        )
        registered = self.do(command)
        assert registered.problem is not None or level >= self.controller.image.feature_level

    @rule(directory=st.integers(1, 9), wish=st.none() | st.integers(0, 5), level=levels)
    def admit(self, directory: int, wish: int | None, level: int) -> None:
        before = self.controller.image
        command = AdmitBroker(
            directory_id=DirectoryId(bytes(15) + bytes([directory])),
            broker_id=None if wish is None else BrokerId(wish),
            live=self.live or frozenset(),
            level=level,
        )
        admitted = self.do(command)
        if admitted.problem is None:
            image, broker_id = self.controller.image, admitted.broker_id
            assert image.brokers[broker_id].directory_id == command.directory_id
            assert wish in (None, broker_id)
            assert broker_id in before.brokers or wish is not None or broker_id > max(before.brokers)
            assert not self.controller.decide(command, 0).records, "a repeated request writes nothing"

    @rule(level=st.integers(0, 5), supported=st.dictionaries(st.integers(0, 9), levels, min_size=4))
    def upgrade(self, level: int, supported: dict[int, int]) -> None:
        before = self.controller.image
        told = {BrokerId(broker_id): newest for broker_id, newest in supported.items()}
        updated = self.do(UpdateFeatures(level=level, supported=told))
        after = self.controller.image.feature_level
        assert after == updated.level
        assert after >= before.feature_level, "the level is never lowered"
        assert updated.problem is not None or level == after
        registered = [broker.broker_id for broker in before.registered()]
        assert after == before.feature_level or all(told.get(broker_id, 0) >= after for broker_id in registered)

    @rule(live=st.none() | st.frozensets(st.integers(0, 9).map(BrokerId)))
    def come_and_go(self, live: frozenset[BrokerId] | None) -> None:
        self.live = live
        self.do(GrowReplicas())
        assert not self.controller.decide(GrowReplicas(), 0, live=live).records, "a repeated command writes nothing"

    @rule(wanted=st.lists(st.tuples(names, st.integers(-1, 40), st.integers(-1, 3), keys, values), max_size=3))
    def create(self, wanted: list[tuple[str, int, int, str, str]]) -> None:
        topics = tuple(
            NewTopic(name=name, partition_count=count, replication_factor=factor, settings=((key, value),))
            for name, count, factor, key, value in wanted
        )
        self.do(CreateTopics(topics=topics))

    @rule(name=names, count=st.integers(0, 50))
    def grow(self, name: str, count: int) -> None:
        self.do(CreatePartitions(topics=(MorePartitions(name=name, partition_count=count),)))

    @rule(wanted=st.lists(names, max_size=2))
    def delete(self, wanted: list[str]) -> None:
        self.do(DeleteTopics(topics=tuple(wanted)))

    @rule()
    def need_offsets(self) -> None:
        self.do(CreateInternalTopic(name=OFFSETS_TOPIC))

    @rule(resource=resources, key=keys, operation=st.sampled_from(Operation), value=values)
    def change(self, resource: ConfigResource, key: str, operation: Operation, value: str) -> None:
        self.do(IncrementalAlterConfigs(resources=((resource, (Change(key, operation, value),)),)))

    @rule(resource=resources, wanted=st.dictionaries(keys, values, max_size=2))
    def replace(self, resource: ConfigResource, wanted: dict[str, str]) -> None:
        self.do(AlterConfigs(resources=((resource, tuple(wanted.items())),)))

    @rule(broker_id=st.integers(1, 4))
    def allocate(self, broker_id: int) -> None:
        block = self.do(AllocateProducerIds(broker_id=BrokerId(broker_id))).ids
        assert not any(block.start < given.stop and given.start < block.stop for given in self.producer_ids)
        self.producer_ids += [block] if block else []

    @rule()
    def snapshot(self) -> None:
        """A snapshot within the log does not change the image, whether it is complete or not."""
        image = self.controller.image
        run = list(snapshot_records(image))

        assert image == apply(EMPTY, run, end_offset=image.offset)
        assert image == apply(image, run[: len(run) // 2], end_offset=image.offset)
        assert image == apply(image, run, end_offset=image.offset)

    @invariant()
    def replaying_the_log_gives_the_same_image(self) -> None:
        image = self.controller.image

        assert image == apply(EMPTY, self.log)

    @invariant()
    def older_versions_can_read_the_log(self) -> None:
        image = self.controller.image

        if image.feature_level < ELASTIC_CLUSTER:
            assert {0} == {encode(record)[1] for record in (*self.log, *snapshot_records(image))}

    @invariant()
    def each_partition_is_in_exactly_one_shard(self) -> None:
        image = self.controller.image
        for topic in image.topics.values():
            held = [p for shard_id in topic.shard_ids for p in image.shards[shard_id].partitions]
            assert list(range(topic.partition_count)) == held
            assert all(p in image.shards[topic.shard_of(p) or ShardId(0)].partitions for p in held)
            assert topic is image.topics_by_id[topic.topic_id]
        assert len(image.shards) == sum(len(topic.shard_ids) for topic in image.topics.values())

    @invariant()
    def replicas_are_current_brokers(self) -> None:
        """No shard names a broker twice, or a directory that was replaced."""
        image = self.controller.image
        for shard in image.shards.values():
            assert len({voter.broker_id for voter in shard.replicas}) == len(shard.replicas) > 0
            assert all(image.brokers[voter.broker_id].voter == voter for voter in shard.replicas)
        assert len({broker.directory_id for broker in image.brokers.values()}) == len(image.brokers)
        assert len(image.shards[METADATA_SHARD].replicas) in (1, 3, 5)


AnyCommands.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestAnyCommands = AnyCommands.TestCase
