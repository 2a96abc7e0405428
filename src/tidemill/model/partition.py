"""Topic and partition number: the name of a partition."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int
