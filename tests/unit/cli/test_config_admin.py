"""The default value of a configuration key, and the value that applies if it is unset."""

import pytest

from tidemill.cli.config_admin import BROKER, default_of, is_set_by_another_key, value_if_unset
from tidemill.cli.config_admin import TOPIC as TOPIC_RESOURCE
from tidemill.wire.messages.describe_configs import Response

Config = Response.Resource.Config
TOPIC, STATIC, DEFAULT = 1, 4, 5


def config(name: str, value: str | None, source: int, *levels: tuple[str, str, int]) -> Config:
    synonyms = [Config.Synonym(name=key, value=text, source=origin) for key, text, origin in levels]
    return Config(name=name, value=value, read_only=False, config_source=source, is_sensitive=False, synonyms=synonyms)


IN_HOURS = ("log.retention.hours", "168", DEFAULT)


@pytest.mark.parametrize(
    ("described", "default"),
    [
        (config("retention.ms", "1", TOPIC, ("retention.ms", "1", TOPIC), IN_HOURS), "log.retention.hours=168"),
        (config("retention.ms", "604800000", DEFAULT, IN_HOURS), "604800000"),
        (config("cleanup.policy", "compact", TOPIC, ("log.cleanup.policy", "delete", DEFAULT)), "delete"),
        (config("node.id", "1", STATIC, ("node.id", "1", STATIC), ("node.id", "-1", DEFAULT)), "-1"),
        (config("log.dirs", "d", STATIC, ("log.dirs", "d", STATIC)), None),
    ],
)
def test_the_default_is_the_lowest_level(described: Config, default: str | None) -> None:
    """
    The default is the value that applies if nothing is set.  If it comes from a broker key with another unit, it is
    shown with the name of that key, for example `log.retention.hours=168`.
    """
    assert default == default_of(described)


IN_FILE = ("log.retention.hours", "72", STATIC)


@pytest.mark.parametrize(
    ("described", "resource_type", "if_unset"),
    [
        (
            config("retention.ms", "1", TOPIC, ("retention.ms", "1", TOPIC), IN_FILE, IN_HOURS),
            TOPIC_RESOURCE,
            "log.retention.hours=72",
        ),
        (config("retention.ms", "259200000", STATIC, IN_FILE, IN_HOURS), TOPIC_RESOURCE, "259200000"),
        (config("retention.ms", "604800000", DEFAULT, IN_HOURS), TOPIC_RESOURCE, "604800000"),
        (config("log.retention.hours", "72", STATIC, IN_FILE, IN_HOURS), BROKER, "168"),
        (config("log.dirs", "d", STATIC, ("log.dirs", "d", STATIC)), BROKER, None),
        (
            config("compression.type", "gzip", STATIC, ("compression.type", "gzip", STATIC)),
            TOPIC_RESOURCE,
            "gzip",
        ),
    ],
)
def test_what_applies_if_a_key_is_unset_is_the_next_level(
    described: Config, resource_type: int, if_unset: str | None
) -> None:
    """
    A topic whose own value is unset gets the value of its broker, which may differ from the default.  Unsetting a key
    that the topic has not set changes nothing.
    """
    assert if_unset == value_if_unset(described, resource_type)


def test_a_key_that_is_only_set_by_a_synonym_is_not_set_itself() -> None:
    """
    For a key that is set only by a synonym, the broker reports no value and the source of the synonym, as Kafka does.
    """
    hours, minutes = [
        config(f"log.retention.{unit}", value, STATIC, IN_FILE, IN_HOURS)
        for unit, value in (("hours", "72"), ("minutes", None))
    ]

    assert [False, True] == [is_set_by_another_key(hours), is_set_by_another_key(minutes)]
