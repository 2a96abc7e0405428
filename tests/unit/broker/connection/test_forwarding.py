"""Any broker accepts requests meant for the controller and forwards them."""

from typing import Any

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tidemill.broker.peers.unanswered import NO_CONTROLLER
from tidemill.metadata.feature_levels import NEWEST
from tidemill.model import errors
from tidemill.model.topic import METADATA_TOPIC
from tidemill.peer import image_offset, join
from tidemill.wire.messages import create_topics, init_producer_id
from tidemill.wire.schema import Api


def creating(name: str) -> create_topics.Request:
    topic = create_topics.Request.Topic(name=name, num_partitions=1, replication_factor=3, assignments=(), configs=())
    return create_topics.Request(topics=[topic], timeout_ms=30_000)


def code_of(answered: Any) -> int | None:
    return None if answered is None else int(answered.topics[0].error_code)


def sent_to(node: Node, name: str) -> tuple[Any, Any]:
    client = node.client
    return client, client.send(creating(name), 7)


def test_any_broker_creates_topics() -> None:
    """
    Whichever broker is asked, the controller creates the topic and every broker learns of it.
    """
    world = ClusterWorld()
    client, sent = sent_to(world[3], "flights")

    world.until(lambda: bool(client.writer.sent), "broker 3 answers")

    assert errors.NONE == code_of(client.answer(*sent))
    assert all(node.broker.image.topic("flights") for node in world.nodes)


def test_a_request_waits_while_the_controller_moves() -> None:
    """
    A controller that is transferring its leadership rejects new requests without any effect, so the broker retries
    them.
    """
    world = ClusterWorld()
    world.hold(to=[2])
    world.begin_to_lead(METADATA_TOPIC, by=2)
    asked = [sent_to(node, f"flights-{node.number}") for node in world.nodes]
    world.stabilize()
    early = [code_of(client.answer(*sent)) for client, sent in asked]

    world.hold()
    world.until(lambda: all(client.writer.sent for client, _ in asked), "all are answered")

    assert ([None] * 3, [errors.NONE] * 3) == (early, [code_of(client.answer(*sent)) for client, sent in asked])
    assert world[2].broker.controller.leads


def test_a_lost_controller_leaves_the_outcome_unknown() -> None:
    """
    If the controller is lost after it has received a request, it may have executed the request, so the client gets
    REQUEST_TIMED_OUT.
    """
    world = ClusterWorld()
    world.hold(sender=[1])
    client, sent = sent_to(world[3], "flights")
    world.stabilize()
    early = client.answer(*sent)

    world.cut_off(1)
    world.stabilize()

    assert (None, errors.REQUEST_TIMED_OUT) == (early, code_of(client.answer(*sent)))


def test_a_join_does_not_wait_for_a_controller() -> None:
    """
    If there is no controller, a request to join is answered with NOT_CONTROLLER at once.  The joining broker itself
    retries the request, possibly with another broker.
    """
    world = ClusterWorld()
    world.hold(to=[2])
    world.begin_to_lead(METADATA_TOPIC, by=2)
    outcomes: list[Any] = []
    request = join.Request(directory_id=bytes(16))
    world[3].broker.cluster.peers.ask(world[1].broker.identity.voter, join.API, request, outcomes.append)

    world.stabilize()

    assert [errors.NOT_CONTROLLER] == [outcome.error_code for outcome in outcomes]


def test_a_producer_waits_for_its_id_while_there_is_no_controller() -> None:
    """
    Without a controller, InitProducerId fails with COORDINATOR_LOAD_IN_PROGRESS, which makes every client retry.  Other
    errors would make the client look for a coordinator.
    """
    world = ClusterWorld()
    world.network.held = lambda _source, _destination: True
    world.cut_off(1)
    request = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=0)

    assert errors.COORDINATOR_LOAD_IN_PROGRESS == world[3].client.ask(request, 4).error_code


def test_a_join_names_the_brokers_that_are_heard_even_without_a_controller() -> None:
    """
    The response has the addresses in the Hellos of live brokers, those of the asked broker and, if there is one, of the
    controller.  The asking broker is not among them, and neither is one that is silent.
    """
    world = ClusterWorld()
    identity = world[3].broker.identity
    request = join.Request(
        directory_id=identity.directory_id, broker_id=identity.broker_id, was_admitted=True, level=NEWEST
    )
    outcomes: list[Any] = []

    def ask() -> None:
        world[3].broker.cluster.peers.ask(world[2].broker.identity.voter, join.API, request, outcomes.append)
        world.stabilize()

    ask()
    world.cut_off(1)
    ask()

    assert [errors.NONE, errors.NOT_CONTROLLER] == [outcome.error_code for outcome in outcomes]
    assert [{world[1].address, world[2].address}, set()] == [set(outcome.live_peers) for outcome in outcomes]


def newer_api(*, key: int, versions: range) -> Api:
    request, response = image_offset.API.request, image_offset.API.response
    return Api(key=key, versions=versions, flexible_from=0, request=request, response=response)


@pytest.mark.parametrize(
    ("api", "version"),
    [
        (newer_api(key=10_999, versions=range(1)), 0),
        (newer_api(key=image_offset.API.key, versions=range(2)), 1),
    ],
    ids=["API", "version"],
)
def test_an_unknown_request_of_a_newer_version_is_not_handled(api: Api, version: int) -> None:
    """
    The response is empty, and the connection stays: without it, neither broker would hear the other for a while, and
    shards would lose their leaders.
    """
    world = ClusterWorld()
    links = [*world.network.links]
    outcomes: list[Any] = []

    world[3].broker.cluster.peers.ask(
        world[1].broker.identity.voter, api, image_offset.Request(), outcomes.append, version=version
    )
    world.stabilize()

    assert [NO_CONTROLLER] == outcomes
    assert all(link.is_open for link in links)
