"""All configuration keys by name: the entry point to the tables of topic, broker and group keys.

A key that none of the tables contains is unknown; the error message suggests the most similar known name.
"""

import difflib
from collections.abc import Mapping
from typing import Final

from tidemill.model import errors
from tidemill.model.broker_config_keys import BROKER_KEYS as _BROKER
from tidemill.model.cluster_config_keys import CLUSTER_KEYS as _CLUSTER
from tidemill.model.config_key import ConfigKey, parse
from tidemill.model.config_types import ConfigValue
from tidemill.model.coordinator_config_keys import COORDINATOR_KEYS as _COORDINATOR
from tidemill.model.errors import KafkaError
from tidemill.model.group_config_keys import GROUP_KEYS as _GROUP
from tidemill.model.log_config_keys import LOG_KEYS as _LOG
from tidemill.model.security_config_keys import SECURITY_KEYS as _SECURITY
from tidemill.model.tidemill_config_keys import TIDEMILL_KEYS as _TIDEMILL
from tidemill.model.topic_config_keys import TOPIC_KEYS as _TOPIC


def _by_name(*tables: tuple[ConfigKey, ...]) -> Mapping[str, ConfigKey]:
    keys = [key for table in tables for key in table]
    named = {key.name: key for key in sorted(keys, key=lambda key: key.name)}
    assert len(named) == len(keys), "a key is in two tables"
    return named


TOPIC_KEYS: Final = _by_name(_TOPIC)
BROKER_KEYS: Final = _by_name(_BROKER, _LOG, _COORDINATOR, _CLUSTER, _SECURITY, _TIDEMILL)
GROUP_KEYS: Final = _by_name(_GROUP)

# For each topic key, the broker keys that set its default, highest precedence first (Kafka's
# `ServerTopicConfigSynonyms`).  The value of a broker key times the number next to the key is the value in the topic
# key's unit.
TOPIC_SYNONYMS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}

# For each broker key, all keys that name the same setting, highest precedence first.
BROKER_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    name: group
    for group in (
        ("broker.id", "node.id"),
        ("log.dirs", "log.dir"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.roll.ms", "log.roll.hours"),
    )
    for name in group
}

# For each group key, the broker key that sets its default (Kafka's `GroupConfig.ALL_GROUP_CONFIG_SYNONYMS`).
GROUP_SYNONYMS: Final[Mapping[str, str]] = {
    name: f"group.{name}" for name in GROUP_KEYS if f"group.{name}" in BROKER_KEYS
}


_COUNTERPARTS: Final[Mapping[str, str]] = {
    name: counterpart
    for topic_key, broker_keys in TOPIC_SYNONYMS.items()
    for name, counterpart in (
        (topic_key, broker_keys[0][0]),
        *((broker_key, topic_key) for broker_key, _ in broker_keys),
    )
}
"""For each topic key, the broker key that sets its default, and the reverse."""

NEAREST_LENGTH_MAX: Final = 100  # names are compared only up to this length, to bound the time of a comparison
NEAREST_LIKENESS_MIN: Final = 0.85  # allows about one typo; a lower ratio would make the search slow


def known_key(keys: Mapping[str, ConfigKey], name: str, *, suggest: bool = True) -> ConfigKey:
    """
    Return the key called `name`.

    Raise KafkaError (INVALID_CONFIG) if `keys` has no such key.  The message names the key's counterpart, if it is a
    topic key and `keys` are the broker's, or the reverse.  With `suggest`, it otherwise names the most similar known
    key.  That search is slow, so callers that look up many names from a client turn it off.
    """
    key = keys.get(name)
    if key is not None:
        return key
    shown = name[:NEAREST_LENGTH_MAX]
    counterpart = _COUNTERPARTS.get(name)
    if counterpart in keys:
        raise KafkaError(errors.INVALID_CONFIG, f"unknown configuration key {shown!r}; did you mean {counterpart}?")
    nearest = difflib.get_close_matches(shown, keys, n=1, cutoff=NEAREST_LIKENESS_MIN) if suggest else ()
    hint = f"; did you mean {nearest[0]}?" if nearest else "; leave it out"
    raise KafkaError(errors.INVALID_CONFIG, f"unknown configuration key {shown!r}{hint}")


def parse_named(keys: Mapping[str, ConfigKey], name: str, text: str) -> ConfigValue:
    """
    Return the value that `text` represents for the key called `name`.  Raise KafkaError (INVALID_CONFIG) if the key is
    unknown or the value is not legal.
    """
    return parse(known_key(keys, name), text)
