"""The default value of a configuration key."""

import pytest

from tidemill.cli.config_admin import default_of
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
    The default is the value that applies if nothing is set.  If it belongs to a key with another unit, it is shown with
    that key.
    """
    assert default == default_of(described)
