"""Finds the effective value of a configuration key, and the source of that value.

The effective value of a topic key is the first of these that is set: the topic's own value; this broker's dynamic
value; the cluster's dynamic default; the value with which the broker was started; the key's default.  If several broker
keys name one setting, each level uses the one with the highest precedence among those that it sets (`log.retention.ms`,
then `.minutes`, then `.hours`).  Some keys have a default that depends on the kind of the topic; it precedes the
broker's values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from tidemill.model import errors
from tidemill.model.config_key import ConfigKey, parse
from tidemill.model.config_keys import (
    BROKER_KEYS,
    BROKER_SYNONYMS,
    GROUP_SYNONYMS,
    TOPIC_SYNONYMS,
    known_key,
)
from tidemill.model.config_types import ConfigValue, value_of_text
from tidemill.model.errors import KafkaError
from tidemill.model.topic_kind import DEFAULTS, kind_of

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigSource(IntEnum):
    """The source of a value.  The numbers are those used in DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayers:
    """
    A broker's configuration as text.

    `dynamic` holds the settings made at run time for this broker, `dynamic_default` those made at run time for all
    brokers of the cluster, and `static` those with which the broker was started.
    """

    dynamic: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    dynamic_default: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    static: Mapping[str, str] = field(default_factory=lambda: NOTHING)


class Synonym(NamedTuple):
    name: str
    value: str | None  # None if the value is sensitive
    source: ConfigSource


class Resolved(NamedTuple):
    """A key with its effective value, as DescribeConfigs returns it."""

    key: ConfigKey
    value: str | None  # None if the key has no value, or if the value is sensitive
    source: ConfigSource
    synonyms: tuple[Synonym, ...]  # highest precedence first; the first one is in effect

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


def broker_value(layers: BrokerLayers, name: str) -> ConfigValue:
    """Return the effective value of the broker key `name`, parsed and in that key's unit."""
    key = BROKER_KEYS[name]
    for synonym in _broker_synonyms(BROKER_SYNONYMS.get(name, (name,)), layers):
        if synonym.value is not None:
            return _in_unit_of(name, synonym)
    return key.default


def broker_int(layers: BrokerLayers, name: str) -> int:
    value = broker_value(layers, name)
    assert isinstance(value, int), name
    return value


def broker_flag(layers: BrokerLayers, name: str) -> bool:
    value = broker_value(layers, name)
    assert isinstance(value, bool), name
    return value


_LOG_DIRS: Final = ("log.dirs", "log.dir")  # synonyms, but Kafka describes each key without the value of the other
_BROKER_IDS: Final = ("broker.id", "node.id")  # synonyms, and Kafka describes both keys with the same value


def resolve_broker(key: ConfigKey, layers: BrokerLayers) -> Resolved:
    """Return the broker key with its effective value, the value's source, and its synonyms, for DescribeConfigs."""
    name = key.name
    names = (name,) if name in _LOG_DIRS else BROKER_SYNONYMS.get(name, (name,))
    synonyms = _broker_synonyms(names, layers, sensitive=key.is_sensitive)
    valued = (synonym.value for synonym in synonyms if synonym.name == name or name in _BROKER_IDS)
    own = next(valued, key.default_text)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return Resolved(key, None if key.is_sensitive else own, source, synonyms)


def resolve_topic(key: ConfigKey, overrides: Mapping[str, str], layers: BrokerLayers) -> Resolved:
    default_of_kind = DEFAULTS[kind_of(overrides)].get(key.name)
    named = TOPIC_SYNONYMS.get(key.name, ()) if default_of_kind is None else ()
    inherited = _broker_synonyms(tuple(name for name, _ in named), layers)
    if key.name in overrides:
        own = Synonym(key.name, overrides[key.name], ConfigSource.DYNAMIC_TOPIC_CONFIG)
        return Resolved(key, own.value, own.source, (own, *inherited))
    if not inherited:
        return Resolved(key, default_of_kind or key.default_text, ConfigSource.DEFAULT_CONFIG, ())
    strongest = inherited[0]
    return Resolved(key, _converted(strongest, dict(named)[strongest.name]), strongest.source, inherited)


def resolve_group(key: ConfigKey, overrides: Mapping[str, str], layers: BrokerLayers) -> Resolved:
    name = GROUP_SYNONYMS.get(key.name)
    inherited = _broker_synonyms((name,), layers) if name else ()
    if key.name in overrides:
        own = Synonym(key.name, overrides[key.name], ConfigSource.DYNAMIC_GROUP_CONFIG)
        return Resolved(key, own.value, own.source, (own, *inherited))
    if not inherited:
        return Resolved(key, key.default_text, ConfigSource.DEFAULT_CONFIG, ())
    return Resolved(key, inherited[0].value, inherited[0].source, inherited)


def static_problems(settings: Mapping[str, str]) -> Iterator[tuple[str, KafkaError]]:
    """Yield the illegal settings among those with which a broker is started, each with its error (INVALID_CONFIG)."""
    ids: dict[str, ConfigValue] = {}
    for name, text in settings.items():
        try:
            value = parse(known_key(BROKER_KEYS, name), text)
        except KafkaError as error:
            yield name, error
        else:
            if name in _BROKER_IDS:
                ids[name] = value
    if len({*ids.values()}) > 1:
        both = " and ".join(f"{name}={value}" for name, value in sorted(ids.items()))
        yield "node.id", KafkaError(errors.INVALID_CONFIG, f"{both} are the same key; leave one out")


def _broker_synonyms(names: tuple[str, ...], layers: BrokerLayers, *, sensitive: bool = False) -> tuple[Synonym, ...]:
    found = [
        Synonym(name, None if sensitive else level[name], source)
        for level, source in (
            (layers.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (layers.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (layers.static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        for name in names
        if name in level
    ]
    for name in names:
        default = BROKER_KEYS[name].default_text
        if default is not None:
            found.append(Synonym(name, None if sensitive else default, ConfigSource.DEFAULT_CONFIG))
    return tuple(found)


def _converted(synonym: Synonym, factor: int) -> str | None:
    if synonym.value is None or factor == 1:
        return synonym.value
    value = value_of_text(BROKER_KEYS[synonym.name].type, synonym.value)
    assert isinstance(value, int), synonym.name
    return str(value * factor if value >= 0 else -1)


_UNITS: Final = {name: factor for named in TOPIC_SYNONYMS.values() for name, factor in named}


def _in_unit_of(name: str, synonym: Synonym) -> ConfigValue:
    value = value_of_text(BROKER_KEYS[synonym.name].type, synonym.value or "")
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value * _UNITS.get(synonym.name, 1) // _UNITS.get(name, 1)
    return value
