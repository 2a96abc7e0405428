"""Parses the options `start` and `end`, which define the range of a topic."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from tidemill.columnar import offset_bound
from tidemill.columnar.offset_bound import AtTimestamp, OffsetBound, Specific
from tidemill.model.partition import TopicPartition

EXAMPLES: Final = 'earliest, latest, 2013-01-01T00:00:00Z, -10m, -1000, group:NAME or {"0": 23, "1": 42}'

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_A_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}.*")


def parse_position(topic: str, option: str, text: str) -> OffsetBound:
    """
    Return the position in `topic` that `text` specifies.

    In addition to the values of the source's option `startingOffsets`, `text` may be a timestamp with a time zone, or
    offsets by partition.  Partitions without an offset are then left out.  Raise ValueError, which names `option` and
    the text.
    """
    stripped = text.strip()
    try:
        if _A_TIME.fullmatch(stripped):
            return AtTimestamp(_milliseconds(stripped))
        if stripped.startswith("{"):
            return Specific(_offsets(topic, json.loads(stripped)))
        return offset_bound.parse({"startingoffsets": stripped}, "starting", Specific({}))
    except _NoTimeZone as error:
        raise ValueError(f"{option}={text} {error}") from None
    except ValueError:
        raise ValueError(f"{option}={text} is not a position: write for example {EXAMPLES}") from None


def named_partitions(bound: OffsetBound) -> frozenset[TopicPartition] | None:
    """Return the partitions to which a position is limited; None if it is a position in every partition."""
    return frozenset(bound.offsets) if isinstance(bound, Specific) else None


class _NoTimeZone(ValueError):
    pass


def _milliseconds(text: str) -> int:
    """
    Return the milliseconds since the epoch, rounded up, because a position is the first record at or after a time.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise _NoTimeZone("has no time zone: add for example Z for UTC, or +01:00")
    return -((_EPOCH - time) // timedelta(milliseconds=1))


def _offsets(topic: str, parsed: Mapping[str, object]) -> dict[TopicPartition, int]:
    if set(parsed) == {topic} and isinstance(nested := parsed[topic], dict):
        parsed = nested  # the JSON format of `startingOffsets` has the topic as its key
    offsets = {}
    for partition, offset in parsed.items():
        if not partition.isdecimal() or type(offset) is not int or offset < 0:
            raise ValueError
        offsets[TopicPartition(topic, int(partition))] = offset
    if not offsets:
        raise ValueError
    return offsets
