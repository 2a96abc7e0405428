"""Refuses topics that are not of kind timer, where only timer topics have what a program reads or writes."""

from collections.abc import Collection
from typing import Final

from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.topic_kinds import kinds
from tidemill.model.topic_kind import KIND, TopicKind

_FIX: Final = "create one with `tidemill topics create NAME --kind timer`"


def first_problem(cluster: ClusterMetadata, topics: Collection[str], *, deadline_ms: int) -> tuple[str, str] | None:
    """
    Return the first topic that is not of kind timer, and a text that says so and how to create one; None if all are.

    `deadline_ms` limits how long the look-up waits for a broker.  Raise RetriesExhausted.
    """
    found = kinds(cluster, topics, deadline_ms=deadline_ms)
    for topic in topics:
        if topic not in found:
            return topic, f"its broker does not report {KIND}, and only timer topics of Tidemill delay records; {_FIX}"
        if found[topic] != TopicKind.TIMER:
            return topic, f"it is of kind {found[topic]}, and only timer topics delay records; {_FIX}"
    return None
