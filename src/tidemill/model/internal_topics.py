"""The table of internal topics, which only the cluster itself creates and writes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidemill.model.topic import METADATA_TOPIC, OFFSETS_TOPIC

RESERVED_PREFIX: Final = "__tidemill_"  # every name with this prefix is internal, even if it is not in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKeys:
    """The broker configuration keys that apply when an internal topic is created."""

    partition_count: str
    replication_factor: str  # also applies later: as brokers join, replicas are added until there are this many
    segment_bytes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """
    One internal topic.  A topic with `keys` is created on request, for its coordinator (`CreateInternalTopic`).  A
    topic without `keys` is either created together with the cluster (the metadata topic) or never created, so that only
    its name is reserved.
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
    InternalTopic(name="__transaction_state"),  # Kafka's topic; transactions are not implemented yet
    InternalTopic(name="__share_group_state"),  # Kafka's topic; a partition's share state will be in its shard's log
)
_NAMES: Final = frozenset(topic.name for topic in INTERNAL_TOPICS)


def all_internal_topics(registered: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
    """Return all topics in the table, followed by the `registered` topics that the table lacks."""
    return tuple(dict.fromkeys((*INTERNAL_TOPICS, *registered)))


def is_internal(name: str) -> bool:
    """Return whether only the cluster itself may create, write, alter and delete the topic."""
    return name in _NAMES or name.startswith(RESERVED_PREFIX)
