"""Looks up the kinds of topics, for programs that read or write what only one kind has."""

from collections.abc import Collection
from typing import Final

from tidemill.client import topic_limits
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import BrokerUnreachable, ClientError, RetriesExhausted
from tidemill.model.topic_kind import KIND

NEW_TOPIC_MS: Final = 1_000  # another broker may learn of a new topic shortly after its creation


def kinds(cluster: ClusterMetadata, topics: Collection[str], *, deadline_ms: int | None = None) -> dict[str, str]:
    """
    Return the kind of each topic.

    A topic is missing from the result if no broker reports its kind: brokers of Apache Kafka have none.  `deadline_ms`
    limits how long the call waits for a broker, by default `default.api.timeout.ms`.  Raise RetriesExhausted.
    """
    outage, pause = cluster.back_off(deadline_ms), cluster.back_off(NEW_TOPIC_MS)
    while True:
        try:
            found = topic_limits.reported(cluster, topics, [KIND])
        except BrokerUnreachable as error:
            outage.pause(error)
            continue
        known = {topic: values[KIND] for topic, values in found.items() if KIND in values}
        missing = [topic for topic in topics if topic not in known]
        if not missing:
            return known
        try:
            pause.pause(ClientError(f"topic {missing[0]!r}: its kind is not reported"))
        except RetriesExhausted:
            return known
