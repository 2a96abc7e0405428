"""A partition's name: topic and number."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int
