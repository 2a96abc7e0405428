"""ListConfigResources lists the names of topics, brokers and configured groups."""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.handlers.test_incremental_alter_configs import asked
from tidemill.model import errors
from tidemill.wire.messages.list_config_resources import Request

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, UNKNOWN = 2, 4, 8, 16, 32, 3


def listed(world: BrokerWorld, *types: int, version: int = 1) -> list[tuple[int, str]]:
    response: Any = world.ask(Request(resource_types=types), version)
    assert errors.NONE == response.error_code
    return [(it.resource_type, it.resource_name) for it in response.config_resources]


def configured() -> BrokerWorld:
    """Return a broker that has two topics and a group with one setting."""
    world = BrokerWorld()
    world.create("tides")
    world.create("flights")
    assert errors.NONE == asked(world, GROUP, "readers", "share.session.timeout.ms", "50000").error_code
    return world


def test_every_type_is_listed_if_none_is_named() -> None:
    """
    The resources are sorted by type and name, and the metadata topic is left out.
    """
    assert [(TOPIC, "flights"), (TOPIC, "tides"), (BROKER, "1"), (GROUP, "readers")] == listed(configured())


def test_only_the_named_types_are_listed() -> None:
    """
    Resource types that Tidemill does not have are accepted, and no resources are listed for them.
    """
    world = configured()

    assert [(BROKER, "1"), (GROUP, "readers")] == listed(world, GROUP, BROKER)
    assert [] == listed(world, BROKER_LOGGER, CLIENT_METRICS)


def test_a_group_without_settings_is_not_listed() -> None:
    """
    The group's last setting has been deleted, and groups are listed only while they have settings.
    """
    world = configured()

    asked(world, GROUP, "readers", "share.session.timeout.ms", None, operation=1)

    assert [] == listed(world, GROUP)


def test_version_0_lists_client_metrics_only() -> None:
    """
    Version 0 is Kafka 3.7's ListClientMetricsResources, and Tidemill has no client metrics.
    """
    assert [] == listed(configured(), version=0)


def test_a_type_that_does_not_exist_is_an_unsupported_version() -> None:
    """
    A resource type that does not exist gets the error UNSUPPORTED_VERSION, as in Kafka.  It tells a client of a newer
    Kafka that the broker is older.
    """
    response = configured().ask(Request(resource_types=[TOPIC, UNKNOWN]), 1)

    assert (errors.UNSUPPORTED_VERSION, 0) == (response.error_code, len(response.config_resources))


def test_every_broker_of_the_cluster_is_listed() -> None:
    """
    Any broker answers on behalf of the whole cluster.
    """
    world = ClusterWorld()
    world.create("flights")

    assert [(BROKER, "1"), (BROKER, "2"), (BROKER, "3")] == listed(world[2], BROKER)
    assert [(TOPIC, "flights")] == listed(world[3], TOPIC)
