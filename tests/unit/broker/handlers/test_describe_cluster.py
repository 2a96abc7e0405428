"""DescribeCluster lists the brokers and names the controller."""

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.wire.messages.describe_cluster import Request


def test_a_single_broker_is_the_controller() -> None:
    """
    The response names the only broker as the controller, and has the cluster id of the broker's data directory.
    """
    world = BrokerWorld()

    told = world.ask(Request(include_cluster_authorized_operations=False))

    assert (world.broker.identity.cluster_id, 1, [(1, "127.0.0.1", 9092)]) == (
        told.cluster_id,
        told.controller_id,
        [(broker.broker_id, broker.host, broker.port) for broker in told.brokers],
    )


def test_endpoints_of_controllers_are_refused() -> None:
    """
    KIP-919: a client that asks for the endpoints of controllers learns that it has reached a broker.  Kafka's commands
    with `--bootstrap-controller` show the message.
    """
    world = BrokerWorld()

    told = [world.ask(Request(include_cluster_authorized_operations=False, endpoint_type=kind)) for kind in (2, 3)]

    assert [errors.MISMATCHED_ENDPOINT_TYPE, errors.UNSUPPORTED_ENDPOINT_TYPE] == [it.error_code for it in told]
    assert "there are no separate controllers: use --bootstrap-server" in told[0].error_message
    assert "endpoint_type=3 is unknown" in told[1].error_message
