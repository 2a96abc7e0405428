"""FindCoordinator returns the broker that leads the partition to which a group hashes."""

import pytest

from tests.unit.broker.broker_world import LISTENER, BrokerWorld, Client
from tests.unit.broker.group_member import STATIC
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model import errors
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.wire.messages.find_coordinator import Request


def test_the_first_request_creates_the_topic() -> None:
    """
    The first request creates the internal topic with offsets.topic.num.partitions partitions.  When its response
    arrives, all of them have leaders, so the group can be used immediately.
    """
    world = BrokerWorld({"offsets.topic.num.partitions": "3"})

    (found,) = world.client.ask_only(Request(coordinator_keys=["g"])).coordinators

    assert ("g", errors.NONE, 1, "127.0.0.1", 9092) == (
        found.key,
        found.error_code,
        found.node_id,
        found.host,
        found.port,
    )
    assert all(world.partition(OFFSETS_TOPIC, number).shard.is_serving for number in range(3))
    assert [True] * 3 == [hosted.is_loaded for hosted in world.broker.coordinators.of(GROUPS).hosted()]


def test_coordinators_are_returned_in_request_order() -> None:
    """
    From v4 on, a request can have many keys, and the response has their coordinators in the same order (KIP-699).
    """
    world = BrokerWorld(STATIC)

    found = world.ask(Request(coordinator_keys=["c", "a", "b"])).coordinators

    assert [("c", 1), ("a", 1), ("b", 1)] == [(it.key, it.node_id) for it in found]


@pytest.mark.parametrize("version", [0, 1, 3])
def test_versions_before_four_ask_for_one_group(version: int) -> None:
    """
    Before v4, the response itself has the fields of the coordinator, instead of a list.
    """
    world = BrokerWorld(STATIC)

    found = world.ask(Request(key="g"), version)

    assert (errors.NONE, 1, 9092) == (found.error_code, found.node_id, found.port)


def test_the_endpoint_is_that_of_the_client_s_listener() -> None:
    """
    The coordinator's endpoint is that of the listener to which the client is connected, because the client may be
    unable to reach the broker's other listener.
    """
    endpoints = (Endpoint(LISTENER, "127.0.0.1", 9092, "PLAINTEXT"), Endpoint("INSIDE", "mill", 9093, "PLAINTEXT"))
    world = BrokerWorld(STATIC, endpoints=endpoints)

    (found,) = Client(world, "INSIDE").ask(Request(coordinator_keys=["g"])).coordinators

    assert ("mill", 9093) == (found.host, found.port)


@pytest.mark.parametrize(
    ("key_type", "code"),
    [(1, errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), (2, errors.INVALID_REQUEST), (7, errors.INVALID_REQUEST)],
)
def test_transactions_and_share_groups_are_refused(key_type: int, code: int) -> None:
    """
    A request for the coordinator of a transaction or a share group gets an error that clients do not retry, and no
    topic is created.
    """
    world = BrokerWorld(STATIC)

    (found,) = world.ask(Request(coordinator_keys=["t"], key_type=key_type)).coordinators

    assert (code, -1) == (found.error_code, found.node_id)
    assert code not in errors.RETRIABLE
    assert world.broker.image.topic(OFFSETS_TOPIC) is None
