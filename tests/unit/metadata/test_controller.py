"""The controller's commands: what each one changes, and which response it gets."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.metadata.controller_world import NOW_MS, Cluster, registration, voter
from tidemill.metadata.broker_states import SetDrain, SetPresence
from tidemill.metadata.brokers import BootstrapCluster
from tidemill.metadata.configs import AlterConfigs, Change, Operation
from tidemill.metadata.metadata_records import ConfigResource
from tidemill.metadata.partitions import CreatePartitions, MorePartitions
from tidemill.metadata.producer_ids import AllocateProducerIds
from tidemill.metadata.topic_configs import TopicConfigs
from tidemill.metadata.topics import CreateInternalTopic, CreateTopics, DeleteTopics, NewTopic
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.model.topic import METADATA_TOPIC, METADATA_TOPIC_ID, OFFSETS_TOPIC, TopicId

SET, DELETE, APPEND, SUBTRACT = Operation


def topic(name: str) -> ConfigResource:
    return ConfigResource(2, name)


def code(answer: Any) -> int:
    return errors.NONE if answer.problem is None else int(answer.problem.error_code)


def test_a_new_cluster_has_the_metadata_topic() -> None:
    """Shard 0 holds the metadata topic, with the topic id that Kafka clients expect."""
    cluster = Cluster()

    image = cluster.image

    assert (METADATA_TOPIC_ID, [(0, range(1))]) == (
        image.topics[METADATA_TOPIC].topic_id,
        cluster.ranges(METADATA_TOPIC),
    )
    assert (voter(1),) == image.shards[image.topics[METADATA_TOPIC].shard_ids[0]].initial_voters


def test_deciding_changes_nothing() -> None:
    """Only `replay` changes the state, so a failed append needs no undo."""
    cluster = Cluster()
    before = cluster.image

    result = cluster.controller.decide(CreateTopics(topics=(NewTopic(name="t"),)), NOW_MS)

    assert result.records
    assert before is cluster.image


def test_a_topic_has_eight_partitions_in_one_shard_by_default() -> None:
    """
    A request without a partition count gets `num.partitions` partitions; on one broker, a shard holds up to 16
    partitions.
    """
    cluster = Cluster()

    answer = cluster.create("t")

    assert (code(answer), answer.partition_count, answer.replication_factor) == (errors.NONE, 8, 1)
    assert [(1, range(8))] == cluster.ranges("t")


def test_a_topic_with_many_partitions_has_several_shards() -> None:
    """No shard exceeds 16 partitions, and the shards have nearly equal sizes."""
    cluster = Cluster()

    cluster.create("t", partition_count=40)

    assert [(1, range(14)), (2, range(14, 27)), (3, range(27, 40))] == cluster.ranges("t")
    assert [shard.shard_id for p in (13, 14, 39) if (shard := cluster.image.shard_of("t", p))] == [1, 2, 3]
    assert [cluster.image.shard_of("t", p) for p in (-1, 40)] == [None, None]


def test_every_broker_can_lead_a_shard() -> None:
    """A topic has at least one shard per broker if it has enough partitions, and the replicas rotate over the
    brokers.
    """
    cluster = Cluster(brokers=3)

    cluster.create("t", partition_count=4, replication_factor=2)

    assert cluster.replicas("t") == [[2, 3], [3, 1], [1, 2]]
    assert [range(2), range(2, 3), range(3, 4)] == [held for _, held in cluster.ranges("t")]


@pytest.mark.parametrize(
    ("wanted", "error_code", "says"),
    [
        ({"name": ""}, errors.INVALID_TOPIC_EXCEPTION, "is empty"),
        ({"name": "a/b"}, errors.INVALID_TOPIC_EXCEPTION, "'a/b'"),
        ({"name": "old"}, errors.TOPIC_ALREADY_EXISTS, "'old' already exists"),
        ({"name": "with_dot"}, errors.INVALID_TOPIC_EXCEPTION, "differs from topic 'with.dot' only in"),
        ({"name": OFFSETS_TOPIC}, errors.INVALID_TOPIC_EXCEPTION, "is reserved for an internal topic"),
        ({"name": "t", "partition_count": 0}, errors.INVALID_PARTITIONS, "partition count 0 is refused"),
        ({"name": "t", "partition_count": -2}, errors.INVALID_PARTITIONS, "partition count -2 is refused"),
        ({"name": "t", "partition_count": 10_001}, errors.INVALID_PARTITIONS, "1 to 10000"),
        ({"name": "t", "replication_factor": 0}, errors.INVALID_REPLICATION_FACTOR, "must be 1 or more"),
        ({"name": "t", "replication_factor": 3}, errors.INVALID_REPLICATION_FACTOR, "this cluster has 1 broker"),
        ({"name": "t", "assignments": ((0, (BrokerId(9),)),)}, errors.INVALID_REPLICA_ASSIGNMENT, "names broker 9"),
        (
            {"name": "t", "assignments": ((1, (BrokerId(1),)),)},
            errors.INVALID_REPLICA_ASSIGNMENT,
            "each partition once",
        ),
        ({"name": "t", "assignments": ((0, ()),)}, errors.INVALID_REPLICA_ASSIGNMENT, "names no broker"),
        (
            {"name": "t", "assignments": ((0, (BrokerId(1), BrokerId(1))),)},
            errors.INVALID_REPLICA_ASSIGNMENT,
            "names a broker twice",
        ),
        (
            {"name": "t", "assignments": ((0, (BrokerId(1),)),), "partition_count": 1},
            errors.INVALID_REQUEST,
            "to -1",
        ),
        ({"name": "t", "settings": (("retention.m", "1"),)}, errors.INVALID_CONFIG, "did you mean retention.ms?"),
        ({"name": "t", "settings": (("retention.ms", "-2"),)}, errors.INVALID_CONFIG, "retention.ms=-2 is refused"),
        ({"name": "t", "settings": (("retention.ms", None),)}, errors.INVALID_CONFIG, "has no value"),
        ({"name": "t", "settings": (("cleanup.policy", "compact"),)}, errors.INVALID_CONFIG, "keyed topics"),
        (
            {"name": "t", "settings": (("tidemill.kind", "keyed"),)},
            errors.INVALID_CONFIG,
            "keyed topics are not implemented yet",
        ),
    ],
)
def test_an_invalid_topic_is_refused(wanted: dict[str, Any], error_code: int, says: str) -> None:
    """An invalid topic is refused with an error message that says what is wrong, and no record is written."""
    cluster = Cluster()
    cluster.create("old")
    cluster.create("with.dot")
    before = cluster.image

    answer = cluster.create(**wanted)

    assert error_code == code(answer)
    assert says in answer.problem.message
    assert before == cluster.image


def test_a_refused_topic_does_not_affect_the_others() -> None:
    """The topics of a request are decided separately, and a topic named twice is not created."""
    cluster = Cluster()
    names = ("good", "bad/", "twice", "other", "twice")

    answers = cluster.do(CreateTopics(topics=tuple(NewTopic(name=name, partition_count=17) for name in names)))

    expected = [errors.NONE, errors.INVALID_TOPIC_EXCEPTION, errors.INVALID_REQUEST, errors.NONE]
    assert expected == [code(answer) for answer in answers]
    assert [[shard_id for shard_id, _ in cluster.ranges(name)] for name in ("good", "other")] == [[1, 2], [3, 4]]


def test_names_of_one_request_must_differ_in_more_than_dots() -> None:
    """Two names that differ only in dots and underscores clash as metric names, so only the first topic is created."""
    cluster = Cluster()

    answers = cluster.do(CreateTopics(topics=(NewTopic(name="a.b"), NewTopic(name="a_b"))))

    assert [code(answer) for answer in answers] == [errors.NONE, errors.INVALID_TOPIC_EXCEPTION]


def test_the_partitions_created_by_one_request_are_limited() -> None:
    """A topic that exceeds the limit, and would block the event loop, is refused; the others are created."""
    cluster = Cluster()
    wanted = [("a", 6_000), ("b", 6_000), ("c", 3)]

    answers = cluster.do(CreateTopics(topics=tuple(NewTopic(name=n, partition_count=c) for n, c in wanted)))

    assert [code(answer) for answer in answers] == [errors.NONE, errors.INVALID_PARTITIONS, errors.NONE]


def test_a_validated_topic_is_not_created() -> None:
    """A `validate_only` request gets the same response as a real one, but no record is written."""
    cluster = Cluster()

    result = cluster.controller.decide(CreateTopics(topics=(NewTopic(name="t"),), validate_only=True), NOW_MS)

    assert (result.records, result.response[0].partition_count) == ((), 8)


def test_assigned_partitions_are_placed_on_their_brokers() -> None:
    """Adjacent partitions with the same brokers share a shard; a different assignment starts a new shard."""
    cluster = Cluster(brokers=2)
    one, two = (BrokerId(1),), (BrokerId(2),)

    cluster.create("t", assignments=((0, one), (1, one), (2, two), (3, one)))

    assert [range(2), range(2, 3), range(3, 4)] == [held for _, held in cluster.ranges("t")]


def test_a_user_who_assigns_partitions_has_chosen_their_brokers() -> None:
    """
    The replicas of partitions that a request assigns, when a topic is created and later, stay where the user wants
    them.  The cluster may move others.  The ids of shards have no gaps.
    """
    cluster = Cluster(brokers=2)
    one, two = (BrokerId(1),), (BrokerId(2),)

    cluster.create("t", assignments=((0, one), (1, two)))
    cluster.create("placed", partition_count=1)
    more = (
        MorePartitions(name="t", partition_count=4, assignments=(two, one)),
        MorePartitions(name="placed", partition_count=2),
    )
    cluster.do(CreatePartitions(topics=more))

    reasons = [(shard_id, cluster.image.shards[shard_id].reason) for shard_id in sorted(cluster.image.shards)[1:]]
    assert reasons == list(enumerate([Reason.USER] * 2 + [Reason.PLACED] + [Reason.USER] * 2 + [Reason.PLACED], 1))
    assert cluster.replicas("t") == [[1], [2], [2], [1]]


def test_assignments_are_readable_for_an_older_cluster() -> None:
    """Below feature level 2, the reason of a shard cannot be recorded."""
    cluster = Cluster(brokers=2, level=1)

    cluster.create("t", assignments=((0, (BrokerId(2),)),))

    assert (cluster.replicas("t"), cluster.image.shards[ShardId(1)].reason) == ([[2]], Reason.PLACED)


def test_new_topics_avoid_drained_brokers() -> None:
    """Their replicas would be moved away at once."""
    cluster = Cluster(brokers=3)
    cluster.do(SetDrain(broker_id=BrokerId(1), drain=Drain.ALL))
    cluster.do(SetPresence(broker_id=BrokerId(2), presence=Presence.GONE))

    cluster.create("t", partition_count=4, replication_factor=1)

    assert cluster.replicas("t") == [[3]]


def test_replicas_are_placed_on_live_brokers_first() -> None:
    """A broker that is down is chosen only when too few are live, and an assignment must name at least one live
    broker.
    """
    cluster = Cluster(brokers=3)
    cluster.live = frozenset({BrokerId(1), BrokerId(3)})
    down = BrokerId(2)

    refused, _, _ = (
        cluster.create("assigned", assignments=((0, (down,)),)),
        cluster.create("two", partition_count=1, replication_factor=2),
        cluster.create("three", partition_count=1, replication_factor=3),
    )

    assert errors.INVALID_REPLICA_ASSIGNMENT == code(refused)
    assert "names only brokers that are down (2)" in refused.problem.message
    assert [sorted(shard) for shard in cluster.replicas("two")] == [[1, 3]]
    assert [shard[-1] for shard in cluster.replicas("three")] == [down]


def test_default_replication_factor_applies() -> None:
    """A request without a replication factor gets the default, and the replicas are spread over all racks."""
    cluster = Cluster(brokers=0, static={"default.replication.factor": "2"})
    for broker_id, rack in ((1, "a"), (2, "a"), (3, "b")):
        cluster.join(broker_id, rack)

    answer = cluster.create("t", partition_count=3)

    assert answer.replication_factor == 2
    assert all(3 in shard for shard in cluster.replicas("t"))
    assert sorted(shard[0] for shard in cluster.replicas("t")) == [1, 2, 3]


def test_deleting_a_topic_removes_everything_but_its_shard_ids() -> None:
    """Deleting a topic removes its shards, ids, settings and reserved metric name; shard ids are never reused."""
    cluster = Cluster()
    cluster.create("a.b", settings=(("retention.ms", "5"),))
    before = Cluster().image

    (answer,) = cluster.do(DeleteTopics(topics=("a.b",)))

    assert code(answer) == errors.NONE
    image = cluster.image
    assert (before.topics, before.shards, before.configs) == (image.topics, image.shards, image.configs)
    assert (before.topics_by_id, before.metric_names, 2) == (
        image.topics_by_id,
        image.metric_names,
        image.next_shard_id,
    )


def test_topics_are_deleted_by_name_and_by_id() -> None:
    """Topics can be deleted by name or by id; the deletion of unknown and internal topics is refused."""
    cluster = Cluster()
    by_id = cluster.create("by.id").topic_id
    cluster.create("by.name")
    wanted = ("by.name", by_id, "by.name", "none", TopicId(b"n" * 16), METADATA_TOPIC)

    answers = cluster.do(DeleteTopics(topics=wanted))

    assert [code(answer) for answer in answers] == [
        errors.NONE,
        errors.NONE,
        errors.INVALID_REQUEST,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.UNKNOWN_TOPIC_ID,
        errors.INVALID_TOPIC_EXCEPTION,
    ]
    assert list(cluster.image.topics) == [METADATA_TOPIC]


def test_deleting_can_be_forbidden() -> None:
    """`delete.topic.enable=false` forbids the deletion of topics."""
    cluster = Cluster(static={"delete.topic.enable": "false"})
    cluster.create("t")

    (answer,) = cluster.do(DeleteTopics(topics=("t",)))

    assert code(answer) == errors.TOPIC_DELETION_DISABLED


def test_new_partitions_form_new_shards() -> None:
    """New partitions form new shards; existing partitions do not move."""
    cluster = Cluster()
    cluster.create("t", partition_count=3)
    cluster.create("between")

    (answer,) = cluster.do(CreatePartitions(topics=(MorePartitions(name="t", partition_count=21),)))

    assert code(answer) == errors.NONE
    assert [(1, range(3)), (3, range(3, 12)), (4, range(12, 21))] == cluster.ranges("t")


@pytest.mark.parametrize(
    ("wanted", "error_code"),
    [
        (MorePartitions(name="none", partition_count=9), errors.UNKNOWN_TOPIC_OR_PARTITION),
        (MorePartitions(name="t", partition_count=8), errors.INVALID_PARTITIONS),
        (MorePartitions(name="t", partition_count=-1), errors.INVALID_PARTITIONS),
        (MorePartitions(name="t", partition_count=10_001), errors.INVALID_PARTITIONS),
        (
            MorePartitions(name="t", partition_count=10, assignments=((BrokerId(1),),)),
            errors.INVALID_REPLICA_ASSIGNMENT,
        ),
        (MorePartitions(name="t", partition_count=9, assignments=((BrokerId(7),),)), errors.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions(name=METADATA_TOPIC, partition_count=9), errors.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_invalid_partition_counts_and_assignments_are_refused(wanted: MorePartitions, error_code: int) -> None:
    """A partition count that is not larger than the current one, or that cannot be placed, is refused."""
    cluster = Cluster()
    cluster.create("t")

    (answer,) = cluster.do(CreatePartitions(topics=(wanted,)))

    assert error_code == code(answer)


def test_the_offsets_topic_is_created_once() -> None:
    """
    Repeated requests for the offsets topic get the same response; neither retention time nor size deletes its records.
    """
    cluster = Cluster()

    first = cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))
    again = cluster.do(CreateInternalTopic(name=OFFSETS_TOPIC))

    assert (8, 1, first.topic_id) == (first.partition_count, first.replication_factor, again.topic_id)
    config = TopicConfigs(BrokerId(1), {}).of(cluster.image, OFFSETS_TOPIC)
    assert (
        config.cleanup_policy,
        config.retention_ms,
        config.retention_bytes,
        config.segment_bytes,
    ) == ("compact", -1, -1, 104_857_600)


def test_settings_are_set_and_deleted() -> None:
    """A changed setting takes effect immediately; a deleted setting leaves no trace."""
    cluster = Cluster()
    cluster.create("t")
    before = cluster.image
    configs = TopicConfigs(BrokerId(1), {})

    cluster.set(topic("t"), Change("retention.ms", SET, " 5 "), Change("max.message.bytes", SET, "9"))
    during = configs.of(cluster.image, "t")
    cluster.set(topic("t"), Change("retention.ms", DELETE, None), Change("max.message.bytes", DELETE, None))
    after = configs.of(cluster.image, "t")

    assert [(c.retention_ms, c.max_message_bytes) for c in (during, after)] == [(5, 9), (604_800_000, 1_048_588)]
    assert before.configs == cluster.image.configs


def test_the_most_specific_setting_applies() -> None:
    """The most specific setting applies, in the order topic, broker, cluster default, settings at start-up."""
    cluster = Cluster()
    cluster.create("own", settings=(("retention.ms", "1"),))
    cluster.create("none")
    configs = TopicConfigs(BrokerId(1), {"log.retention.hours": "1"})

    started = configs.of(cluster.image, "none").retention_ms
    cluster.set(ConfigResource(4, ""), Change("log.retention.ms", SET, "20"))
    default = configs.of(cluster.image, "none").retention_ms
    cluster.set(ConfigResource(4, "1"), Change("log.retention.ms", SET, "10"))
    dynamic = configs.of(cluster.image, "none").retention_ms

    assert (started, default, dynamic, configs.of(cluster.image, "own").retention_ms) == (3_600_000, 20, 10, 1)


@pytest.mark.parametrize(
    ("resource", "change", "error_code", "says"),
    [
        (topic("none"), Change("retention.ms", SET, "1"), errors.UNKNOWN_TOPIC_OR_PARTITION, "'none'"),
        (topic("t"), Change("nonsense", SET, "1"), errors.INVALID_CONFIG, "unknown configuration key 'nonsense'"),
        (topic("t"), Change("nonsense", DELETE, None), errors.INVALID_CONFIG, "unknown configuration key"),
        (topic("t"), Change("retention.ms", SET, "soon"), errors.INVALID_CONFIG, "retention.ms=soon is refused"),
        (topic("t"), Change("retention.ms", SET, None), errors.INVALID_REQUEST, "has no value"),
        (topic("t"), Change("retention.ms", APPEND, "1"), errors.INVALID_CONFIG, "needs a list"),
        (topic("t"), Change("cleanup.policy", APPEND, "compact"), errors.INVALID_CONFIG, "delete,compact is refused"),
        (topic("t"), Change("unclean.leader.election.enable", SET, "true"), errors.INVALID_CONFIG, "would lose them"),
        (topic("t"), Change("compression.type", SET, "best"), errors.INVALID_CONFIG, "must be one of"),
        (topic(METADATA_TOPIC), Change("retention.ms", SET, "1"), errors.INVALID_CONFIG, "cannot be changed"),
        (ConfigResource(4, ""), Change("num.partitions", SET, "1"), errors.INVALID_CONFIG, "read only at start-up"),
        (ConfigResource(4, "7"), Change("log.retention.ms", SET, "1"), errors.INVALID_REQUEST, "brokers: 1"),
        (
            ConfigResource(32, ""),
            Change("share.session.timeout.ms", SET, "1"),
            errors.INVALID_REQUEST,
            "empty name",
        ),
        (ConfigResource(8, "1"), Change("x", SET, "1"), errors.INVALID_REQUEST, "resource type 8"),
    ],
)
def test_an_invalid_setting_is_refused(resource: ConfigResource, change: Change, error_code: int, says: str) -> None:
    """
    An invalid setting is refused with an error message that names the key, the value and the fix, and no record is
    written.
    """
    cluster = Cluster()
    cluster.create("t")
    before = cluster.image

    answer = cluster.set(resource, Change("min.insync.replicas", SET, "1"), change)

    assert error_code == code(answer)
    assert says in answer.problem.message
    assert before == cluster.image


def test_append_and_subtract_change_lists() -> None:
    """APPEND and SUBTRACT modify the list that is in effect."""
    cluster = Cluster()
    cluster.create("t")
    key = "leader.replication.throttled.replicas"

    cluster.set(topic("t"), Change(key, APPEND, "0:1,1:1"))
    cluster.set(topic("t"), Change(key, APPEND, "1:1,2:1"))
    cluster.set(topic("t"), Change(key, SUBTRACT, "0:1"))

    assert {key: "1:1,2:1"} == cluster.image.topic_overrides("t")


def test_alter_configs_deletes_the_settings_it_does_not_name() -> None:
    """AlterConfigs replaces all settings; only the topic's kind remains."""
    cluster = Cluster()
    cluster.create("t", settings=(("retention.ms", "1"), ("segment.ms", "2"), ("tidemill.kind", "log")))

    cluster.do(AlterConfigs(resources=((topic("t"), (("segment.ms", "3"), ("flush.ms", "4"))),)))

    assert cluster.image.topic_overrides("t") == {"segment.ms": "3", "flush.ms": "4", "tidemill.kind": "log"}


def test_group_settings_are_checked_and_stored() -> None:
    """Settings of groups are checked and stored, before the group exists."""
    cluster = Cluster()

    answer = cluster.set(ConfigResource(32, "g"), Change("share.auto.offset.reset", SET, "earliest"))

    assert code(answer) == errors.NONE
    assert cluster.image.configs[ConfigResource(32, "g")] == {"share.auto.offset.reset": "earliest"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([("share.session.timeout.ms", "44999")], "must be 45000 to 60000"),
        ([("share.auto.offset.reset", "by_duration:1h")], "must be earliest, latest, or by_duration"),
        (
            [("share.session.timeout.ms", "45000"), ("share.heartbeat.interval.ms", "45000")],
            "must be 5000 to 15000",
        ),
    ],
)
def test_an_invalid_setting_of_a_group_is_refused(changes: list[tuple[str, str]], says: str) -> None:
    """The broker's minimum and maximum keys bound a group's settings; a request is applied completely or not at all."""
    cluster = Cluster()

    answer = cluster.set(
        ConfigResource(32, "g"),
        Change("share.assignment.interval.ms", SET, "7"),
        *(Change(key, SET, value) for key, value in changes),
    )

    assert code(answer) == errors.INVALID_CONFIG
    assert says in answer.problem.message
    assert ConfigResource(32, "g") not in cluster.image.configs


def test_a_groups_setting_can_be_deleted() -> None:
    """
    When a setting of a group is deleted, the broker's value applies to the group again.  That value is not checked
    against the bounds for groups.
    """
    cluster = Cluster()
    cluster.set(ConfigResource(32, "g"), Change("share.session.timeout.ms", SET, "50000"))

    answer = cluster.set(ConfigResource(32, "g"), Change("share.session.timeout.ms", DELETE, None))

    assert code(answer) == errors.NONE
    assert ConfigResource(32, "g") not in cluster.image.configs


def test_no_producer_id_is_allocated_twice() -> None:
    """Blocks of ids are consecutive, whichever broker requests them; an unregistered broker gets none."""
    cluster = Cluster(brokers=2)

    blocks = [cluster.do(AllocateProducerIds(broker_id=BrokerId(broker_id))) for broker_id in (1, 2, 1)]
    stranger = cluster.do(AllocateProducerIds(broker_id=BrokerId(3)))

    assert [range(1_000), range(1_000, 2_000), range(2_000, 3_000)] == [block.ids for block in blocks]
    assert (errors.BROKER_ID_NOT_REGISTERED, range(0)) == (code(stranger), stranger.ids)


def test_a_registration_updates_the_endpoints() -> None:
    """An unchanged registration writes nothing; another directory with the same broker id is refused."""
    cluster = Cluster()
    moved = replace(registration(1), endpoints=(), rack="r")
    thief = replace(registration(1), directory_id=voter(2).directory_id)

    same = cluster.controller.decide(registration(1), NOW_MS)
    cluster.do(moved)
    refused = cluster.do(thief)

    assert (
        same.records,
        cluster.image.brokers[BrokerId(1)].rack,
        cluster.image.brokers[BrokerId(1)].endpoints,
    ) == ((), "r", ())
    assert code(refused) == errors.DUPLICATE_BROKER_REGISTRATION


def test_a_directory_of_another_cluster_is_refused() -> None:
    """Repeating the bootstrap changes nothing; a bootstrap with another cluster id is refused."""
    cluster = Cluster()
    before = cluster.image

    again = cluster.do(BootstrapCluster(cluster_id="c", voter=voter(1)))
    other = cluster.do(BootstrapCluster(cluster_id="d", voter=voter(1)))

    assert (code(again), code(other)) == (errors.NONE, errors.INCONSISTENT_CLUSTER_ID)
    assert before == cluster.image
