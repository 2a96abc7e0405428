"""The start or end of a read, as set by options, and the JSON format of offsets in checkpoints.

Three options can set the same bound, and the most specific one wins, as in Spark's Kafka source: `startingTimestamp`,
then `startingOffsetsByTimestamp`, then `startingOffsets`.

Unlike in Spark's Kafka source, `startingOffsets` and `endingOffsets` may also be relative: `-10m` (a time before now),
`-1000` (a number of offsets before the end of each partition), or `group:NAME` (the committed offsets of a consumer
group).
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidemill.model.partition import TopicPartition

_LOG = logging.getLogger(__name__)

LATEST = -1  # means the end of a partition in the JSON of `startingOffsets` and `endingOffsets`
EARLIEST = -2

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_GROUP: Final = "group:"
_START: Final = "(start) "  # a topic name cannot contain parentheses or spaces


@dataclass(frozen=True, slots=True)
class Everywhere:
    """EARLIEST or LATEST, the same for every partition."""

    position: int


@dataclass(frozen=True, slots=True)
class Specific:
    """For each partition, an offset, EARLIEST or LATEST.  Every partition that is read must be included."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record at or after this timestamp (milliseconds since the epoch), in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """In each partition, the first record at or after that partition's timestamp (milliseconds since the epoch)."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class BeforeNow:
    """In every partition, the first record that is at most this old, or the end if the partition has no such record."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """This number of offsets before the end of every partition, but not before its start."""

    offset_count: int


@dataclass(frozen=True, slots=True)
class Committed:
    """
    The committed offsets of a consumer group.

    A partition without a committed offset starts at its earliest offset.
    """

    group: str


JsonOffsets = dict[str, dict[str, int]]
OffsetBound = Everywhere | Specific | AtTimestamp | AtTimestamps | BeforeNow | BeforeEnd | Committed


def is_repeatable(bound: OffsetBound) -> bool:
    """Return whether `bound` resolves to the same readable records again later, even if the topic has grown."""
    if isinstance(bound, Specific):
        return LATEST not in bound.offsets.values()
    return bound == Everywhere(EARLIEST)


def parse(options: Mapping[str, str], end: str, default: OffsetBound) -> OffsetBound:
    """
    Return the bound that the options set, or `default`.

    `end` is `starting` or `ending`.  Raise ValueError for an invalid value; the message contains an example of a valid
    one.
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
    relative = _relative(offsets.strip(), f"{end}Offsets")
    if relative is not None:
        return relative
    specific = _by_partition(offsets, f"{end}Offsets", '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')
    if any(value < EARLIEST for value in specific.values()):
        raise ValueError(f"{end}Offsets={offsets}: an offset is 0 or more, -1 for latest or -2 for earliest")
    return Specific(specific)


def _relative(text: str, option: str) -> OffsetBound | None:
    """Return the bound for `-10m`, `-1000` or `group:NAME`, or None if the text has another format."""
    if text.startswith(_GROUP):
        group = text.removeprefix(_GROUP).strip()
        if not group:
            raise ValueError(f"{option}={text} names no group: write {option}=group:NAME")
        return Committed(group)
    match = re.fullmatch(r"-(\d+)([a-z]*)", text.lower())
    if match is None:
        return None
    number, unit = int(match.group(1)), match.group(2)
    if number == 0 or (unit and unit not in _UNITS_MS):
        raise ValueError(
            f"{option}={text} is not a position: write a number above 0, and for a time one of the units s, m, h and "
            "d, for example -1000 or -10m"
        )
    if unit:
        return BeforeNow(number * _UNITS_MS[unit])
    if number in (-LATEST, -EARLIEST):
        meant = "latest" if number == -LATEST else "earliest"
        _LOG.warning("%s=%s means the last %d offsets; write %s if you mean that", option, text, number, meant)
    return BeforeEnd(number)


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
    """Parse offsets from JSON; the inverse of `to_json`.  A start that `with_start` has added is ignored."""
    return {
        TopicPartition(topic, int(p)): offset
        for topic, ends in offsets.items()
        if not topic.startswith(_START)
        for p, offset in ends.items()
    }


def with_start(end: JsonOffsets, start: JsonOffsets) -> JsonOffsets:
    """
    Return `end`, the end of a query's first batch, together with its start.

    Spark does not store the start of the first batch and requests it from the source again after a restart.  By then, a
    start such as the end of the topic or ten minutes ago resolves to different offsets.
    """
    return {**end, **{f"{_START}{topic}": offsets for topic, offsets in start.items()}}


def start_in(end: JsonOffsets) -> JsonOffsets | None:
    """Return the start that `with_start` has added to `end`, or None."""
    found = {topic.removeprefix(_START): value for topic, value in end.items() if topic.startswith(_START)}
    return found or None


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
