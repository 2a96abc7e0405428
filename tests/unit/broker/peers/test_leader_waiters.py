"""Metadata requests wait for missing leaders, so that clients learn of the next leader without asking again."""

from tests.unit.broker.broker_world import Client
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.model import errors
from tidemill.wire.messages import metadata

WAIT_MS = 500
SILENT_MS = 2_500
FLIGHTS = metadata.Request(topics=[metadata.Request.Topic(name="flights")], allow_auto_topic_creation=False)
ALL = metadata.Request(topics=None)


def world_without_leader() -> ClusterWorld:
    """Return a cluster in which `flights` has no leader.  No election can end, because all messages are held back."""
    world = ClusterWorld()
    world.create("flights", brokers=(3, 1, 2))
    world.create("ships", brokers=(1, 2, 3))
    world.lead("flights", by=3)
    world.lead("ships", by=1)
    world.cut_off(3)
    world.stopped.add(3)
    world.network.held = lambda _source, _destination: True
    return world


def leader_after(world: ClusterWorld, client: Client, request: metadata.Request, duration_ms: int) -> int | None:
    """Return the leader of `flights` in the response after `duration_ms`, or None if there is no response yet."""
    api, version = client.send(request, 12)
    world.pass_time(duration_ms) if duration_ms else world.stabilize()
    response = client.answer(api, version)
    return None if response is None else leader_in(response)


def leader_in(response: metadata.Response) -> int:
    return next(it.partitions[0].leader_id for it in response.topics if it.name == "flights")


def test_metadata_waits_for_the_next_leader() -> None:
    """
    A Metadata request for a topic without a leader waits for the next leader, whether it names the topic, its id or all
    topics.
    """
    world = world_without_leader()
    topic_id = world[1].broker.image.topics["flights"].topic_id
    by_id = metadata.Request(topics=[metadata.Request.Topic(name=None, topic_id=topic_id)])
    clients = [Client(world[1]) for _ in range(3)]

    asked = [client.send(request, 12) for client, request in zip(clients, (FLIGHTS, by_id, ALL), strict=True)]
    world.stabilize()
    assert [None] * 3 == [client.answer(*it) for client, it in zip(clients, asked, strict=True)]
    world.network.held = lambda _source, _destination: False
    world.until(lambda: world.led_by("flights") in (1, 2), "another leader")

    answers = [client.answer(*it) for client, it in zip(clients, asked, strict=True)]
    assert [world.led_by("flights")] * 3 == [leader_in(it) for it in answers]


def test_a_shard_that_stays_without_a_leader_delays_no_further_request() -> None:
    """
    Once a shard has been without a leader for the whole time limit, later requests do not wait for it.  Requests of a
    connection are handled in order, so a wait also delays requests for shards that have leaders.
    """
    world = world_without_leader()
    client = Client(world[1])

    assert leader_after(world, client, FLIGHTS, WAIT_MS - 50) is None
    world.pass_time(50)
    first = client.answer(metadata.API, 12)
    assert (errors.LEADER_NOT_AVAILABLE, -1) == (first.topics[0].partitions[0].error_code, leader_in(first))
    assert leader_after(world, client, FLIGHTS, 0) == -1


def test_a_shard_that_loses_its_leader_again_is_waited_for_again() -> None:
    """
    Requests wait again for a shard that has had a leader since the last wait ended, and has lost it.
    """
    world = world_without_leader()
    assert leader_after(world, Client(world[1]), FLIGHTS, WAIT_MS) == -1
    world.network.held = lambda _source, _destination: False
    world.until(lambda: world.led_by("flights") in (1, 2), "another leader")

    world.network.held = lambda _source, _destination: True
    world.pass_time(SILENT_MS)

    assert leader_after(world, Client(world[1]), FLIGHTS, 0) is None


def test_metadata_of_topics_with_leaders_does_not_wait() -> None:
    """
    A request waits only for the leaders of the topics that it names.
    """
    world = world_without_leader()

    response = world[1].ask(metadata.Request(topics=[metadata.Request.Topic(name="ships")]), 12)

    assert response.topics[0].partitions[0].leader_id == 1


def test_a_broker_that_stops_answers_waiting_requests() -> None:
    """
    A broker that stops answers the requests that wait for leaders, because these would delay a clean stop otherwise.
    """
    world = world_without_leader()
    client = Client(world[1])
    assert leader_after(world, client, FLIGHTS, 0) is None

    world[1].broker.cluster.stop()
    world.stabilize()

    assert leader_in(client.answer(metadata.API, 12)) == -1
