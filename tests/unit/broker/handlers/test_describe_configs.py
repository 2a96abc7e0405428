"""DescribeConfigs returns every key with its value and source."""

from typing import Any

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.model import errors
from tidemill.wire.messages.describe_configs import Request

TOPIC, BROKER, GROUP, BROKER_LOGGER = 2, 4, 32, 8


def asked(
    world: BrokerWorld, kind: int, name: str, *keys: str, synonyms: bool = False, documentation: bool = False
) -> Any:
    resource = Request.Resource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    (answer,) = world.ask(
        Request(resources=[resource], include_synonyms=synonyms, include_documentation=documentation)
    ).results
    return answer


def test_a_topic_s_value_comes_with_its_synonyms() -> None:
    """
    The topic's own value comes first, then the broker's, then the default, each with its source.
    """
    world = BrokerWorld(static={"log.retention.hours": "2"})
    world.create("flights", retention_ms="5000")

    (config,) = asked(world, TOPIC, "flights", "retention.ms", synonyms=True).configs

    assert ("5000", 1, False, 5) == (config.value, config.config_source, config.read_only, config.config_type)
    assert [("retention.ms", "5000", 1), ("log.retention.hours", "2", 4), ("log.retention.hours", "168", 5)] == [
        (synonym.name, synonym.value, synonym.source) for synonym in config.synonyms
    ]


def test_only_requested_keys_are_returned() -> None:
    """
    If the list of keys is null, all keys are returned.  Synonyms and documentation are returned only on request.
    """
    world = BrokerWorld()
    world.create("flights")

    everything = asked(world, TOPIC, "flights", documentation=True).configs
    chosen = asked(world, TOPIC, "flights", "retention.ms", "segment.ms").configs

    assert {"retention.ms", "segment.ms"} == {config.name for config in chosen}
    assert len(everything) > 25 and all(config.documentation for config in everything)
    assert all(config.documentation is None and not config.synonyms for config in chosen)


def test_keys_of_a_broker_that_are_read_at_its_start_are_read_only() -> None:
    """
    The response marks as read-only the keys that a broker reads at its start.  All other keys of a broker can be
    altered at runtime.
    """
    world = BrokerWorld(static={"num.partitions": "3"})

    configs = {config.name: config for config in asked(world, BROKER, "1").configs}

    assert ("3", 4, True) == tuple(
        getattr(configs["num.partitions"], name) for name in ("value", "config_source", "read_only")
    )
    assert not configs["message.max.bytes"].read_only


def test_groups_and_the_cluster_default_are_resources_too() -> None:
    """
    The group does not have to exist, and the cluster-wide default lists only the settings that have been altered.
    """
    world = BrokerWorld()

    group, default = asked(world, GROUP, "readers"), asked(world, BROKER, "")

    assert (errors.NONE, errors.NONE, []) == (group.error_code, default.error_code, list(default.configs))
    assert "consumer.session.timeout.ms" in {config.name for config in group.configs}


def test_unknown_resources_are_refused() -> None:
    """
    An unknown topic, an illegal topic name, another broker, a group without a name, and a resource type that has no
    configuration are refused.
    """
    world = BrokerWorld()

    codes = [
        asked(world, kind, name).error_code
        for kind, name in ((TOPIC, "flights"), (TOPIC, "a b"), (BROKER, "9"), (GROUP, ""), (BROKER_LOGGER, "1"))
    ]

    assert [
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.INVALID_TOPIC_EXCEPTION,
        errors.INVALID_REQUEST,
        errors.INVALID_REQUEST,
        errors.INVALID_REQUEST,
    ] == codes


STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 4, 5


def test_static_settings_of_a_broker_have_the_source_static_broker_config() -> None:
    """
    Each key with which the broker was started shows the given value; every other key shows its default, as in Kafka.
    """
    static = {
        "node.id": "1",  # another name for `broker.id`, and the same number
        "log.dirs": "/mill",  # `log.dir` is a separate key, which is not set
        "num.partitions": "8",  # equal to the default
        "message.max.bytes": "2000000",  # can be altered at runtime
        "auto.create.topics.enable": "false",
    }
    world = BrokerWorld(static=static)

    configs = {config.name: config for config in asked(world, BROKER, "1", synonyms=True).configs}

    shown = {name: it.value for name, it in configs.items() if it.config_source == STATIC_BROKER_CONFIG}
    assert static | {"broker.id": "1"} == shown
    assert {DEFAULT_CONFIG} == {it.config_source for name, it in configs.items() if name not in shown}
    synonyms = {name: [(it.name, it.value, it.source) for it in configs[name].synonyms] for name in configs}
    assert [("message.max.bytes", "2000000", 4), ("message.max.bytes", "1048588", 5)] == synonyms["message.max.bytes"]
    assert [("num.partitions", "8", 4), ("num.partitions", "8", 5)] == synonyms["num.partitions"]
    assert [("log.segment.bytes", "1073741824", 5)] == synonyms["log.segment.bytes"]
    assert "log.dirs" not in {name for name, *_ in synonyms["log.dir"]}
