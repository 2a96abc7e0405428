"""IncrementalAlterConfigs changes individual settings, and the changes take effect immediately."""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.wire.messages.incremental_alter_configs import Request

TOPIC, BROKER = 2, 4
SET, DELETE, UNKNOWN = 0, 1, 9


def asked(
    world: BrokerWorld, kind: int, name: str, key: str, value: str | None, operation: int = SET, only: bool = False
) -> Any:
    config = Request.Resource.Config(name=key, config_operation=operation, value=value)
    resource = Request.Resource(resource_type=kind, resource_name=name, configs=[config])
    (answer,) = world.ask(Request(resources=[resource], validate_only=only)).responses
    return answer


def test_a_topic_obeys_its_new_setting_at_once() -> None:
    """
    The batch after a change is checked against the topic's new value or, after a DELETE, against the default.
    """
    world = BrokerWorld()
    world.create("flights")
    codes = []

    for value, operation in (("100", SET), (None, DELETE)):
        asked(world, TOPIC, "flights", "max.message.bytes", value, operation)
        codes.append(world.produce("flights", bytes(200)).error_code)

    assert [errors.MESSAGE_TOO_LARGE, errors.NONE] == codes


def test_a_cluster_default_applies_to_topics_and_survives_a_kill() -> None:
    """
    A cluster default applies to every topic that does not set the key itself.
    """
    world = BrokerWorld()
    world.create("flights")

    answer = asked(world, BROKER, "", "log.retention.ms", "7000")

    again = world.restarted()
    assert errors.NONE == answer.error_code
    assert [7000, 7000] == [it.partition("flights").config.retention_ms for it in (world, again)]


def test_invalid_changes_are_refused_with_a_message() -> None:
    """
    An unknown operation, an unknown topic, a value that is out of range, and a key that a broker reads only at start-up
    are refused.
    """
    world = BrokerWorld()
    world.create("flights")

    answers = [
        asked(world, TOPIC, "flights", "retention.ms", "1", UNKNOWN),
        asked(world, TOPIC, "tides", "retention.ms", "1"),
        asked(world, TOPIC, "flights", "retention.ms", "-2"),
        asked(world, BROKER, "1", "num.partitions", "3"),
    ]

    assert [
        errors.INVALID_REQUEST,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.INVALID_CONFIG,
        errors.INVALID_CONFIG,
    ] == [answer.error_code for answer in answers]
    assert all(answer.error_message for answer in answers)


def test_validate_only_changes_nothing() -> None:
    """
    A request with `validate_only` gets the same response as a real one, but changes no setting.
    """
    world = BrokerWorld()
    world.create("flights")
    before = world.partition("flights").config

    answer = asked(world, TOPIC, "flights", "retention.ms", "1", only=True)

    assert (errors.NONE, before) == (answer.error_code, world.partition("flights").config)
