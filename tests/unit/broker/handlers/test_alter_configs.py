"""AlterConfigs replaces all settings of a resource."""

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.wire.messages.alter_configs import Request

TOPIC = 2


def request(name: str, **settings: str) -> Request:
    configs = [Request.Resource.Config(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    return Request(
        resources=[Request.Resource(resource_type=TOPIC, resource_name=name, configs=configs)], validate_only=False
    )


def test_a_setting_that_is_not_named_is_reset_to_its_default() -> None:
    """
    AlterConfigs resets every setting that it does not name, as in Kafka.  This is why KIP-339 introduced
    IncrementalAlterConfigs.
    """
    world = BrokerWorld()
    world.create("flights", retention_ms="1", segment_ms="2")

    (answer,) = world.ask(request("flights", segment_ms="3")).responses

    config = world.partition("flights").config
    assert (errors.NONE, 604_800_000, 3) == (answer.error_code, config.retention_ms, config.segment_ms)


def test_a_resource_is_changed_as_a_whole_or_not_at_all() -> None:
    """
    A single invalid value prevents all changes in the same resource.
    """
    world = BrokerWorld()
    world.create("flights", retention_ms="1")

    (answer,) = world.ask(request("flights", segment_ms="3", retention_bytes="many")).responses

    assert (errors.INVALID_CONFIG, 1) == (answer.error_code, world.partition("flights").config.retention_ms)
