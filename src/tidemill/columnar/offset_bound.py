"""The start or end of a read, as set by options, and the JSON form of offsets in checkpoints.

Three options can set the same bound, and the most specific one wins, as in Spark's Kafka source: `startingTimestamp`,
then `startingOffsetsByTimestamp`, then `startingOffsets`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.model.partition import TopicPartition

LATEST = -1  # in `startingOffsets` and `endingOffsets`
EARLIEST = -2


@dataclass(frozen=True, slots=True)
class Everywhere:
    """EARLIEST or LATEST, the same for every partition."""

    position: int


@dataclass(frozen=True, slots=True)
class Specific:
    """An offset, EARLIEST or LATEST for each partition.  Every partition that is read must be included."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record at or after this timestamp (milliseconds since the epoch), in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """In each partition, the first record at or after that partition's timestamp (milliseconds since the epoch)."""

    timestamps_ms: Mapping[TopicPartition, int]


OffsetBound = Everywhere | Specific | AtTimestamp | AtTimestamps


def parse(options: Mapping[str, str], end: str, default: OffsetBound) -> OffsetBound:
    """
    Return the bound that the options set, or `default`.

    `end` is `starting` or `ending`.  Raise ValueError for an illegal value; the message has an example of a legal one.
    """
    if (timestamp := options.get(f"{end}timestamp")) is not None:
        if not timestamp.strip().isdecimal():
            raise ValueError(f"Expected a timestamp in milliseconds for option '{end}Timestamp', got {timestamp}")
        return AtTimestamp(int(timestamp))
    if (timestamps := options.get(f"{end}offsetsbytimestamp")) is not None:
        parsed = _by_partition(timestamps, f"{end}OffsetsByTimestamp", '{"topicA":{"0":1000,"1":1000}}')
        if any(value < 0 for value in parsed.values()):
            raise ValueError(
                f"{end}OffsetsByTimestamp={timestamps}: timestamps are milliseconds and must not be negative"
            )
        return AtTimestamps(parsed)
    offsets = options.get(f"{end}offsets")
    if offsets is None:
        return default
    if offsets.strip().lower() == "latest":
        return Everywhere(LATEST)
    if offsets.strip().lower() == "earliest":
        return Everywhere(EARLIEST)
    specific = _by_partition(offsets, f"{end}Offsets", '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')
    if any(value < EARLIEST for value in specific.values()):
        raise ValueError(f"{end}Offsets={offsets}: an offset is 0 or more, -1 for latest or -2 for earliest")
    return Specific(specific)


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """
    Return offsets as JSON, `{"topic": {"0": 23}}`.

    The format is that of Spark's Kafka source, so a checkpoint works with both.  The order is fixed, because Spark
    compares offsets as text.
    """
    by_topic: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        by_topic.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return by_topic


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return the offsets of this JSON; the inverse of `to_json`."""
    return {TopicPartition(topic, int(p)): offset for topic, ends in offsets.items() for p, offset in ends.items()}


def _by_partition(text: str, option: str, example: str) -> dict[TopicPartition, int]:
    expected = f"Expected e.g. {example} for option '{option}', got {text}"
    try:
        parsed = json.loads(text)
        pairs = [(topic, int(p), value) for topic, ends in parsed.items() for p, value in ends.items()]
    except (ValueError, AttributeError):
        raise ValueError(expected) from None
    if not all(type(value) is int and partition >= 0 for _, partition, value in pairs):
        raise ValueError(expected)
    return {TopicPartition(topic, partition): value for topic, partition, value in pairs}
