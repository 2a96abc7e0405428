"""Which value of a key is in effect, and how DescribeConfigs shows it."""

import pytest

from tidemill.model import errors
from tidemill.model.config_keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from tidemill.model.config_resolution import (
    BrokerLayers,
    ConfigSource,
    Synonym,
    broker_flag,
    broker_int,
    broker_value,
    resolve_broker,
    resolve_group,
    resolve_topic,
    static_problems,
)
from tidemill.model.topic_config import compile_topic_config

TOPIC, DYNAMIC, CLUSTER = ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource(2), ConfigSource(3)
STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG
RETENTION = TOPIC_KEYS["retention.ms"]


@pytest.mark.parametrize(
    ("overrides", "layers", "value", "source"),
    [
        ({}, BrokerLayers(), "604800000", DEFAULT),
        ({}, BrokerLayers(static={"log.retention.hours": "2"}), "7200000", STATIC),
        ({}, BrokerLayers(static={"log.retention.hours": "2", "log.retention.minutes": "3"}), "180000", STATIC),
        ({}, BrokerLayers(static={"log.retention.minutes": "3", "log.retention.ms": "4"}), "4", STATIC),
        ({}, BrokerLayers(static={"log.retention.hours": "-1"}), "-1", STATIC),
        ({}, BrokerLayers(static={"log.retention.ms": "4"}, dynamic_default={"log.retention.ms": "5"}), "5", CLUSTER),
        ({}, BrokerLayers(dynamic_default={"log.retention.ms": "5"}, dynamic={"log.retention.ms": "6"}), "6", DYNAMIC),
        ({"retention.ms": "7"}, BrokerLayers(dynamic={"log.retention.ms": "6"}), "7", TOPIC),
    ],
)
def test_the_most_specific_level_takes_precedence(
    overrides: dict[str, str], layers: BrokerLayers, value: str, source: ConfigSource
) -> None:
    """
    The first of these levels that sets a key determines its value: topic, broker, cluster, start and default.  Within a
    level, ms takes precedence over minutes, and minutes over hours.  The value is in the unit of the topic key.
    """
    resolved = resolve_topic(RETENTION, overrides, layers)

    assert (value, source) == (resolved.value, resolved.source)
    assert int(value) == compile_topic_config(overrides, layers).retention_ms


def test_synonyms_list_every_level() -> None:
    """Synonyms are ordered by level, as in Kafka, each with the name and the unit in which it was set."""
    layers = BrokerLayers(dynamic_default={"log.retention.ms": "5"}, static={"log.retention.minutes": "3"})

    resolved = resolve_topic(RETENTION, {"retention.ms": "7"}, layers)

    assert (
        Synonym("retention.ms", "7", TOPIC),
        Synonym("log.retention.ms", "5", CLUSTER),
        Synonym("log.retention.minutes", "3", STATIC),
        Synonym("log.retention.hours", "168", DEFAULT),
    ) == resolved.synonyms


def test_a_topic_key_without_a_broker_key_has_its_own_default() -> None:
    """A topic key without a broker key, such as `tidemill.kind`, has its own default."""
    resolved = resolve_topic(TOPIC_KEYS["tidemill.kind"], {}, BrokerLayers())

    assert resolved[1:] == ("log", DEFAULT, ())
    assert resolved.is_default


def test_a_broker_key_shows_where_it_was_set() -> None:
    """DescribeConfigs shows no value for a broker key that is set only by a synonym, but the synonym's source."""
    layers = BrokerLayers(static={"log.retention.hours": "2"})

    unset = resolve_broker(BROKER_KEYS["log.retention.ms"], layers)
    given = resolve_broker(BROKER_KEYS["log.retention.hours"], layers)

    assert [(r.value, r.source) for r in (unset, given)] == [(None, STATIC), ("2", STATIC)]


def test_a_secret_is_never_shown() -> None:
    """A secret appears neither as a value nor among the synonyms."""
    layers = BrokerLayers(static={"sasl.jaas.config": "secret"})

    resolved = resolve_broker(BROKER_KEYS["sasl.jaas.config"], layers)

    assert (None, (Synonym("sasl.jaas.config", None, STATIC),)) == (resolved.value, resolved.synonyms)


def test_a_group_falls_back_to_its_broker() -> None:
    """A group's `share.session.timeout.ms` defaults to the broker's `group.share.session.timeout.ms`."""
    key = GROUP_KEYS["share.session.timeout.ms"]
    layers = BrokerLayers(static={"group.share.session.timeout.ms": "50000"})

    values = [resolve_group(key, overrides, layers).value for overrides in ({}, {key.name: "46000"})]

    assert values == ["50000", "46000"]


def test_a_setting_can_be_given_under_any_of_its_names() -> None:
    """A synonym sets its key: `node.id` sets `broker.id`, `log.dir` sets `log.dirs`, and hours set milliseconds."""
    layers = BrokerLayers(static={"node.id": "3", "log.dir": "here", "log.roll.hours": "2"})

    values = [broker_value(layers, name) for name in ("broker.id", "node.id", "log.dirs", "log.roll.ms")]

    assert values == [3, 3, ("here",), 7_200_000]


def test_a_value_that_was_never_set_is_the_default() -> None:
    """A key that was never set has its default value, which for `num.partitions` is 8, unlike in Kafka."""
    layers = BrokerLayers()

    assert (
        broker_int(layers, "num.partitions"),
        broker_flag(layers, "auto.create.topics.enable"),
        broker_value(layers, "broker.rack"),
    ) == (8, True, None)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"num.partition": "1"}, "did you mean num.partitions?"),
        ({"num.partitions": "0"}, "num.partitions=0 is refused"),
        ({"broker.id": "1", "node.id": "2"}, "are the same key"),
    ],
)
def test_a_broker_is_not_started_with_wrong_settings(settings: dict[str, str], says: str) -> None:
    """Each invalid setting prevents the start, with an error that names it."""
    ((name, problem),) = static_problems(settings)

    assert name in settings
    assert problem.error_code == errors.INVALID_CONFIG
    assert says in problem.message


def test_an_internal_key_allows_small_segments() -> None:
    """Kafka's internal key `internal.segment.bytes` may be below the minimum of `segment.bytes`."""
    config = compile_topic_config({"internal.segment.bytes": "100"})

    assert config.segment_bytes == 100
