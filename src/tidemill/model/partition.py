"""The identity of a partition: topic name and partition number."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int
