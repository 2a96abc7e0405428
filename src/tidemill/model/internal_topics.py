"""The table of internal topics: topics that the cluster creates and writes itself, and no client does."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidemill.model.topic import METADATA_TOPIC, OFFSETS_TOPIC

RESERVED_PREFIX: Final = "__tidemill_"  # every name that begins with it is internal, in the table or not


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKeys:
    """The broker configuration keys that apply when an internal topic is created."""

    partition_count: str
    replication_factor: str  # also when brokers join: the topic grows up to this value
    segment_bytes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """
    One internal topic.  A topic with `keys` is created on request (`CreateInternalTopic`) for its coordinator.  One
    without is either created with the cluster (the metadata topic) or only reserves its name.
    """

    name: str
    keys: TopicKeys | None = None


METADATA: Final = InternalTopic(name=METADATA_TOPIC)
OFFSETS: Final = InternalTopic(
    name=OFFSETS_TOPIC,
    keys=TopicKeys(
        partition_count="offsets.topic.num.partitions",
        replication_factor="offsets.topic.replication.factor",
        segment_bytes="offsets.topic.segment.bytes",
    ),
)

INTERNAL_TOPICS: Final = (
    METADATA,
    OFFSETS,
    InternalTopic(name="__transaction_state"),  # Kafka's; there are no transactions yet
    InternalTopic(name="__share_group_state"),  # Kafka's; share state lives in the partition's own shard log
)
_NAMES: Final = frozenset(topic.name for topic in INTERNAL_TOPICS)


def all_internal_topics(registered: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
    """Return the table, and the registered topics that it lacks."""
    return tuple(dict.fromkeys((*INTERNAL_TOPICS, *registered)))


def is_internal(name: str) -> bool:
    """Whether only the cluster may create, write, alter and delete the topic."""
    return name in _NAMES or name.startswith(RESERVED_PREFIX)
