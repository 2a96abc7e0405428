"""Reads the partitions from a member's assignment; every version of the format begins with them."""

import struct
from typing import Final

from tidemill.model.partition import TopicPartition

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def assigned(assignment: bytes) -> list[TopicPartition]:
    """
    Return the partitions of an assignment in the format of Kafka's consumers.

    Other kinds of groups use formats of their own; an assignment that cannot be read has no partitions.
    """
    found = []
    try:
        position = _INT16.size  # skip the version: the fields read here are the same in all versions
        (topic_count,) = _INT32.unpack_from(assignment, position)
        position += _INT32.size
        for _ in range(topic_count):
            (size,) = _INT16.unpack_from(assignment, position)
            position += _INT16.size
            topic = assignment[position : position + size].decode()
            position += size
            (partition_count,) = _INT32.unpack_from(assignment, position)
            position += _INT32.size
            for _ in range(partition_count):
                found.append(TopicPartition(topic, *_INT32.unpack_from(assignment, position)))
                position += _INT32.size
    except (struct.error, UnicodeDecodeError):
        return []
    return sorted(found)
