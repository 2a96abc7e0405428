"""DescribeCluster names the brokers and the controller."""

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.wire.messages.describe_cluster import Request


def test_a_cluster_of_one_is_its_own_controller() -> None:
    """
    With the cluster id that every other answer has.
    """
    world = BrokerWorld()

    told = world.ask(Request(include_cluster_authorized_operations=False))

    assert (world.broker.identity.cluster_id, 1, [(1, "127.0.0.1", 9092)]) == (
        told.cluster_id,
        told.controller_id,
        [(broker.broker_id, broker.host, broker.port) for broker in told.brokers],
    )


def test_controllers_do_not_listen_here() -> None:
    """
    KIP-919: a client that wants a controller's endpoint is told that it has come to a broker's.
    """
    world = BrokerWorld()

    codes = [
        world.ask(Request(include_cluster_authorized_operations=False, endpoint_type=kind)).error_code
        for kind in (2, 3)
    ]

    assert [errors.MISMATCHED_ENDPOINT_TYPE, errors.UNSUPPORTED_ENDPOINT_TYPE] == codes
