"""Metadata, DescribeTopicPartitions and DescribeCluster describe brokers and partitions consistently."""

from typing import Any

import pytest

from tests.unit.broker.broker_world import Client
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.maintenance.planned import plan
from tidemill.broker.leadership.partition_view import partition_view
from tidemill.broker.peers.cluster import LISTED_MS
from tidemill.metadata.topics import CreateTopics, NewTopic
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.wire.messages import describe_cluster, describe_topic_partitions, metadata

FLIGHTS = metadata.Request(topics=[metadata.Request.Topic(name="flights")])


def told(world: ClusterWorld, number: int) -> list[Any]:
    """
    Return how broker `number` describes the partition in its responses to Metadata and to DescribeTopicPartitions.
    """
    by_metadata = asked_for_long(world, number, FLIGHTS)
    return [by_metadata.topics[0].partitions[0], described(world, number)]


def described(world: ClusterWorld, number: int) -> Any:
    topics = [describe_topic_partitions.Request.Topic(name="flights")]
    return world[number].ask(describe_topic_partitions.Request(topics=topics)).topics[0].partitions[0]


def asked_for_long(world: ClusterWorld, number: int, request: metadata.Request) -> metadata.Response:
    """Return the response to a Metadata request, after the longest time that the request waits for missing leaders."""
    client = Client(world[number])
    api, version = client.send(request, 12)
    world.pass_time(500)
    response: metadata.Response = client.answer(api, version)
    return response


def brokers(world: ClusterWorld, number: int, **fields: bool) -> list[tuple[int, str | None, bool]]:
    request = describe_cluster.Request(include_cluster_authorized_operations=False, **fields)
    return [(it.broker_id, it.rack, it.is_fenced) for it in world[number].ask(request).brokers]


def test_every_broker_describes_the_leader_and_its_epoch_as_one_pair() -> None:
    """
    Every broker describes the same leader with its own epoch, and lists the replicas in planned order, with the
    preferred leader first, whichever broker leads.
    """
    world = ClusterWorld()
    world.create("flights", brokers=(2, 3, 1))
    world.lead("flights", by=1)
    term = world[1].shard("flights").replica.term

    for number in (1, 2, 3):
        for partition in told(world, number):
            assert (errors.NONE, 1, term) == (partition.error_code, partition.leader_id, partition.leader_epoch)
            assert ([2, 3, 1], [2, 3, 1], []) == (
                list(partition.replica_nodes),
                list(partition.isr_nodes),
                list(partition.offline_replicas),
            )


def test_a_leader_without_a_listed_endpoint_is_not_named() -> None:
    """A leader is not named if its broker's endpoint is not in the response, because the client could not reach it."""
    world = ClusterWorld()
    world.create("flights", brokers=(2, 3, 1))
    broker = world[1].broker

    views = [
        partition_view(broker.image, broker.cluster, broker.image.topics["flights"], 0, listed)
        for listed in ({1, 2, 3}, {1, 3})
    ]

    assert [errors.NONE, errors.LEADER_NOT_AVAILABLE] == [view.error_code for view in views]
    assert [2, -1] == [view.leader_id for view in views]
    assert -1 == views[1].leader_epoch


def test_a_broker_stays_listed_for_a_while_after_its_end() -> None:
    """
    A broker stays listed for a while after its end.  If the former leader's broker were missing from a response, a
    client might ignore the new leader that the response names.
    """
    world = ClusterWorld()
    world.create("flights", brokers=(3, 1, 2))
    world.cut_off(3)
    world.stopped.add(3)
    world.until(lambda: world.led_by("flights") in (1, 2), "another leader")

    answer = world[1].ask(FLIGHTS)
    assert answer.topics[0].partitions[0].leader_id in (1, 2)
    assert [1, 2, 3] == [it.node_id for it in answer.brokers]
    world.pass_time(LISTED_MS)
    assert [1, 2] == [it.node_id for it in world[1].ask(FLIGHTS).brokers]


def test_a_broker_that_is_down_is_not_listed_and_out_of_sync() -> None:
    """
    DescribeCluster lists a broker that is down only if the request includes fenced brokers.
    """
    world = ClusterWorld()
    world.create("flights", brokers=(1, 2, 3))

    world.cut_off(3)
    world.pass_time(LISTED_MS)

    for partition in told(world, 1):
        assert ([1, 2, 3], [1, 2], [3]) == (
            list(partition.replica_nodes),
            list(partition.isr_nodes),
            list(partition.offline_replicas),
        )
    up = [(1, "rack-1", False), (2, "rack-2", False)]
    assert (up, [*up, (3, "rack-3", True)]) == (brokers(world, 1), brokers(world, 1, include_fenced_brokers=True))
    assert [1, 2] == [it.node_id for it in world[1].ask(metadata.Request(topics=[])).brokers]


def test_every_broker_names_itself_as_the_controller() -> None:
    """
    If another broker were named, a client could wait for a dead controller.  Every broker forwards requests to the real
    one.
    """
    world = ClusterWorld()
    request = describe_cluster.Request(include_cluster_authorized_operations=False)

    named = [world[number].ask(it).controller_id for number in (1, 3) for it in (request, metadata.Request(topics=[]))]

    assert [1, 1, 3, 3] == named


def test_an_isolated_broker_lists_every_broker() -> None:
    """
    If the other brokers were missing, its clients would forget them and ask only the isolated one.
    """
    world = ClusterWorld()

    world.cut_off(3)
    world.stabilize()

    request = describe_cluster.Request(include_cluster_authorized_operations=False)
    assert [1, 2, 3] == [it.broker_id for it in world[3].ask(request).brokers]


@pytest.mark.parametrize(
    "asked", [FLIGHTS, metadata.Request(topics=None), metadata.Request(topics=[])], ids=["a topic", "all", "none"]
)
def test_an_isolated_broker_closes_connections_that_ask_for_leaders(asked: metadata.Request) -> None:
    """
    An isolated broker closes a connection on which a client asks for leaders.  The client then immediately asks another
    broker, and keeps its other connections.  If the response had no leader or the error REBOOTSTRAP_REQUIRED,
    librdkafka would wait a second and might ask this broker again.
    """
    world = ClusterWorld()
    world.create("flights", brokers=(3, 1, 2))
    client = Client(world[3])

    world.cut_off(3)
    world.stabilize()
    api, version = client.send(asked)

    assert (None, False) == (client.answer(api, version), client.writer.is_open)
    assert [3, 1, 2] == list(asked_for_long(world, 1, FLIGHTS).topics[0].partitions[0].replica_nodes)


def test_an_isolated_broker_describes_the_shards_that_it_leads_alone() -> None:
    """
    An isolated broker still describes the shards of which it has the only replica, because they need no votes from
    other brokers.
    """
    world = ClusterWorld()
    world.create("alone", brokers=(3,))

    world.cut_off(3)
    world.stabilize()

    topic = asked_for_long(world, 3, metadata.Request(topics=[metadata.Request.Topic(name="alone")])).topics[0]
    assert (errors.NONE, 3) == (topic.partitions[0].error_code, topic.partitions[0].leader_id)
    assert [1, 2, 3] == [it.node_id for it in world[3].ask(metadata.Request(topics=[])).brokers]


def test_every_broker_reports_the_replicas_in_sync_as_their_leader_does() -> None:
    """
    A replica is out of sync while its broker is up but does not know yet that the plan places the replica there.
    """
    world = ClusterWorld()
    world.create("flights")
    world.lead("flights", by=1)
    world.pass_time(500)
    world.hold(to=[3])
    world[1].produce("flights", b"meanwhile")
    world.pass_time(500)
    given_time = [list(described(world, number).isr_nodes) for number in (1, 2)]
    brokers_of_it = tuple(BrokerId(number) for number in (1, 2, 3))
    more = NewTopic(name="more", partition_count=-1, replication_factor=-1, assignments=((0, brokers_of_it),))
    world[1].broker.controller.submit(CreateTopics(topics=(more,)))
    world.pass_time(1_000)
    (shard_id,) = world[1].broker.image.topics["more"].shard_ids
    planned = world[1].broker.image.shards[shard_id]
    new = [node.broker.cluster.in_sync(planned) for node in (world[1], world[2])]
    world.hold()
    world.pass_time(1_000)

    assert ([[1, 2, 3], [1, 2, 3]], [[1, 2], [1, 2]]) == (given_time, new)
    assert [[1, 2, 3]] * 3 == [node.broker.cluster.in_sync(planned) for node in world.nodes]


def test_replicas_that_are_to_go_are_shown_until_the_newcomers_are_there() -> None:
    """
    A move shows no partition as lacking a replica in sync, and no leader that is not among its replicas, as in Kafka.
    Of two newcomers, the one that is up takes the place of one replica, which is not shown from then on.
    """
    world = ClusterWorld(brokers=5)
    world.create("flights", brokers=(1, 2, 3))
    world.lead("flights", by=1)
    for number in (4, 5):
        world.cut_off(number)
        world.stopped.add(number)
    world.pass_time(LISTED_MS)

    plan(world, "flights", 4, 5, 3)

    world.pass_time(5_000)
    for number in (1, 2, 3):
        seen = described(world, number)
        assert (1, [4, 5, 3, 1, 2], [1, 2, 3]) == (seen.leader_id, list(seen.replica_nodes), sorted(seen.isr_nodes))
    world.heal()
    world.stopped.discard(4)
    world.cut_off(5)
    world.until(lambda: 4 in described(world, 3).isr_nodes, "broker 4 is in sync")
    world.pass_time(5_000)
    voters = {voter.broker_id for voter in world[world.led_by("flights")].shard("flights").replica.voters}
    assert voters in ({1, 3, 4}, {2, 3, 4})
    for number in (1, 2, 3):
        seen = described(world, number)
        assert ([4, 5, 3], {5, *voters}) == (list(seen.replica_nodes)[:3], {*seen.replica_nodes})
        assert voters == {*seen.isr_nodes}
    world.heal()
    world.stopped.clear()
    world.until(lambda: sorted(described(world, 3).isr_nodes) == [3, 4, 5], "all newcomers are in sync")
    world.until(lambda: list(described(world, 3).replica_nodes) == [4, 5, 3], "the others are gone")


@pytest.mark.parametrize("silent", [True, False])
def test_a_named_leader_is_one_of_the_listed_brokers(silent: bool) -> None:
    """
    A client that cannot reach the named leader would search for it forever, so the response has LEADER_NOT_AVAILABLE,
    leader −1 and epoch −1 instead.
    """
    world = ClusterWorld()
    world.create("flights", brokers=(3, 1, 2))
    world.network.held = lambda _source, _destination: True  # no election message arrives
    if silent:
        world.pass_time(2_500)
    else:
        world.cut_off(3)

    for partition in [described(world, 1)] if silent else told(world, 1):
        assert (errors.LEADER_NOT_AVAILABLE, -1, -1) == (
            partition.error_code,
            partition.leader_id,
            partition.leader_epoch,
        )
