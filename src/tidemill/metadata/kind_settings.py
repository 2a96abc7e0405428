"""Checks that the settings of a topic fit its kind: some keys, and some values, are for topics of one kind only."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidemill.model.config_key import parse, refusal
from tidemill.model.config_keys import TOPIC_KEYS
from tidemill.model.topic_config_keys import TIMER_KEYS
from tidemill.model.topic_kind import TopicKind


class _OnlyFor(NamedTuple):
    values: tuple[str, ...]
    why: str


TIMER_VALUES: Final[Mapping[str, _OnlyFor]] = {
    "message.timestamp.type": _OnlyFor(
        ("LogAppendTime",), "a timer topic stamps records when they are delivered, with the broker's clock"
    ),
    "compression.type": _OnlyFor(
        ("producer", "uncompressed"), "a timer topic stores records uncompressed, to read each alone when it is due"
    ),
}
"""For each key of which a timer topic accepts some values only: these values, and why."""


def check_kind_settings(kind: TopicKind, settings: Mapping[str, str]) -> None:
    """
    Check the `settings` of a topic, each of which is legal for its key.

    Raise KafkaError (INVALID_CONFIG) for the first one that does not fit the kind.  As with every refused key, its
    default is accepted.
    """
    for name, text in settings.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            continue  # a later version wrote it, or an earlier one
        if kind is not TopicKind.TIMER:
            if name in TIMER_KEYS and parse(key, text) != key.default:
                raise refusal(
                    key, text, "only timer topics have it; leave it out, or create a topic with tidemill.kind=timer"
                )
        elif name in TIMER_VALUES and text not in TIMER_VALUES[name].values:
            values, why = TIMER_VALUES[name]
            raise refusal(key, text, f"{why}; leave it out, or use {' or '.join(values)}")
