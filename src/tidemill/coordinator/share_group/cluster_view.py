"""What the coordinator of share groups needs to know about the cluster, as functions of the current cluster image."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tidemill.model.share_group_config import ShareGroupConfig
from tidemill.model.topic import TopicId


class TopicView(NamedTuple):
    topic_id: TopicId
    name: str
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    topic: Callable[[str], TopicView | None]
    """Return the topic that currently has the given name; None if there is none."""
    topic_by_id: Callable[[TopicId], TopicView | None]
    share_group_config: Callable[[str], ShareGroupConfig]
    """Return the current configuration of a share group, which may not exist yet."""

    def topic_id(self, name: str) -> TopicId | None:
        found = self.topic(name)
        return None if found is None else found.topic_id
