"""How the broker hosts the controller."""

from typing import Any
from unittest.mock import patch

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.batches.batch import spans
from tidemill.broker.coordinators import hosted_partition
from tidemill.metadata.broker_states import SetDrain
from tidemill.metadata.topics import CreateTopics, NewTopic
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.model.broker_state import Drain
from tidemill.model.config_resolution import NOTHING
from tidemill.model.shard import METADATA_SHARD
from tidemill.raft.messages import VoteRequest
from tidemill.shard.pending import OUTCOME_UNKNOWN


def test_already_exists_is_answered_only_by_a_confirmed_controller() -> None:
    """
    Rejecting a request with TOPIC_ALREADY_EXISTS appends no record, so a controller that does not know that it has been
    replaced could do so for a topic that has been deleted since.
    """
    world = ClusterWorld()
    world.create("flights")
    again = CreateTopics(topics=(NewTopic(name="flights", partition_count=1, replication_factor=3),))
    controller = world[1].broker.controller
    answers: list[Any] = []
    world.network.held = lambda _source, _destination: True

    controller.submit(again).then(answers.append)
    world.stabilize()
    while_it_believes_to_lead = (controller.leads, [*answers])
    world.pass_time(3_000)

    assert ((True, []), [OUTCOME_UNKNOWN]) == (while_it_believes_to_lead, answers)


def test_a_decision_is_one_batch_however_many_records_it_has() -> None:
    """
    All records of a decision are in one batch, so that it is never applied only in part, for example by creating a
    topic without its shards.
    """
    world = BrokerWorld()
    partition = world.broker.shard_table.shards[METADATA_SHARD].partitions[0]
    end_offset = partition.log.end_offset
    topics = tuple(NewTopic(name=f"t{number}", partition_count=1, replication_factor=1) for number in range(5))

    with patch.object(hosted_partition, "BATCH_RECORDS_MAX", 3):
        world.broker.controller.submit(CreateTopics(topics=topics))

    found = partition.log.read(end_offset, 1 << 20, partition.log.end_offset, may_wait=True)
    assert found is not None
    assert [10] == [span.header.record_count for buffer in found[0] for span in spans(buffer)]


def test_a_response_waits_until_the_image_has_the_change() -> None:
    """
    A response is sent when this broker's image contains the change, because the client may immediately ask this broker
    for the new topic.
    """
    world = BrokerWorld()
    answers: list[Any] = []
    seen: list[bool] = []
    world.writes = False
    pending = world.broker.controller.submit(
        CreateTopics(topics=(NewTopic(name="flights", partition_count=1, replication_factor=1),))
    )
    pending.then(lambda topics: (answers.extend(topics), seen.append("flights" in world.broker.image.topics)))
    world.stabilize()
    early = [*answers]

    world.writes = True
    world.stabilize()

    assert ([], ["flights"], [True]) == (early, [topic.name for topic in answers], seen)


def test_internal_topics_grow_when_a_drain_ends() -> None:
    """No broker comes when a drain ends, so the controller must look for itself whether replicas can be added now."""
    world = ClusterWorld(brokers=2)
    controller = world[1].broker
    controller.controller.submit(SetDrain(broker_id=BrokerId(2), drain=Drain.ALL))
    Node(world, 3, NOTHING)
    world.pass_time(1_000)
    without = broker_ids(controller.image.shards[METADATA_SHARD].replicas)

    controller.controller.submit(SetDrain(broker_id=BrokerId(2), drain=Drain.NONE))
    world.pass_time(1_000)

    assert (without, broker_ids(controller.image.shards[METADATA_SHARD].replicas)) == ([1], [1, 2, 3])


def test_a_former_controller_appends_no_snapshot() -> None:
    """
    A controller that has decided on a change that makes a snapshot due, and then loses leadership, does not append the
    snapshot.
    """
    world = ClusterWorld()
    former = world[1].broker
    shard = former.shard_table.shards[METADATA_SHARD]
    request = VoteRequest(term=shard.replica.term + 1, last_index=0, last_term=0, is_transfer=True)
    with (
        patch.object(hosted_partition, "SNAPSHOT_RECORDS_MIN", 1),
        patch.object(hosted_partition, "SNAPSHOT_GROWTH", 0),
    ):
        former.controller.submit(
            CreateTopics(topics=(NewTopic(name="flights", partition_count=1, replication_factor=3),))
        )
    end_offset = shard.partitions[0].log.end_offset

    former.shard_table.receive(world[2].broker.identity.voter, METADATA_SHARD, request)
    world.stabilize()

    assert not former.controller.leads
    assert end_offset == shard.partitions[0].log.end_offset
