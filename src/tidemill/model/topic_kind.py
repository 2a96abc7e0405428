"""The kind of a topic: chosen when the topic is created, with `tidemill.kind`, and never changed."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

KIND: Final = "tidemill.kind"


class TopicKind(StrEnum):
    LOG = "log"
    KEYED = "keyed"  # compacted by key; not implemented yet
    TIMER = "timer"  # records wait until they are due


# What topics of a kind have unless they set it themselves.  The broker's keys do not apply to these.
DEFAULTS: Final[Mapping[TopicKind, Mapping[str, str]]] = {
    TopicKind.LOG: {},
    TopicKind.KEYED: {},
    TopicKind.TIMER: {"message.timestamp.type": "LogAppendTime", "compression.type": "producer"},
}


def kind_of(settings: Mapping[str, str]) -> TopicKind:
    """Return the kind of a topic with these settings, which have been checked."""
    return TopicKind(settings.get(KIND, TopicKind.LOG))
