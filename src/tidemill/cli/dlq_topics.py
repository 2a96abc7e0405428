"""Finds the dead-letter topics of a cluster, and the share groups that send their dead letters there."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from tidemill.cli.client_errors import client_errors
from tidemill.cli.config_admin import GROUP, TOPIC, ConfigAdmin, Resource
from tidemill.client.cluster_metadata import ClusterMetadata, LeaderUnknown
from tidemill.client.failures import UnknownTopic
from tidemill.client.offset_lookup import EARLIEST, LATEST, look_up
from tidemill.model.partition import TopicPartition

ENABLED: Final = "errors.deadletterqueue.group.enable"
TOPIC_NAME: Final = "errors.deadletterqueue.topic.name"


def rows(configs: ConfigAdmin, cluster: ClusterMetadata, bootstrap: str) -> list[dict[str, Any]]:
    """
    Return the rows of `dlq list`, ordered by topic: the topics that accept dead letters, and those that groups name.

    Raise `Failed` if a request is refused or not answered.
    """
    enabled = configs.values([Resource(TOPIC, name) for name in configs.names(TOPIC)], ENABLED)
    named = configs.values([Resource(GROUP, name) for name in configs.names(GROUP)], TOPIC_NAME)
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for group, topic in sorted(named.items()):
        if topic:
            groups[topic].append(group)
    topics = sorted({name for name, value in enabled.items() if value == "true"} | groups.keys())
    with client_errors(bootstrap, "dead-letter topics"):
        cluster.refresh(topics)
        return [_row(cluster, topic, groups[topic], is_enabled=enabled.get(topic) == "true") for topic in topics]


def _row(cluster: ClusterMetadata, topic: str, groups: Sequence[str], *, is_enabled: bool) -> dict[str, Any]:
    try:
        numbers = cluster.partitions(topic)
    except UnknownTopic:
        numbers = None
    return {
        "topic": topic,
        "exists": numbers is not None,
        "enabled": is_enabled,
        "partitions": None if numbers is None else len(numbers),
        "letters": None if numbers is None else _letter_count(cluster, topic, numbers),
        "groups": list(groups),
    }


def _letter_count(cluster: ClusterMetadata, topic: str, numbers: Sequence[int]) -> int | None:
    """Return the number of offsets from start to end of the partitions; None if one of them has no leader."""
    partitions = [TopicPartition(topic, number) for number in numbers]
    try:
        for partition in partitions:
            cluster.leader(partition)
    except LeaderUnknown:
        return None
    starts = look_up(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = look_up(cluster, dict.fromkeys(partitions, LATEST))
    return sum(max(ends[partition] - starts[partition], 0) for partition in partitions)
