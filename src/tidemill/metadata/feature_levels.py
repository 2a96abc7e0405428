"""The feature level of a cluster: what its brokers may write to logs, disks and each other.

A version of Tidemill supports every level up to its own newest one.  A cluster begins at the newest level of its first
broker, and `features.UpdateFeatures` raises the level later: while brokers of two versions run, and until then, nothing
is written that the older version cannot read.  Rows on disk and the connection between brokers have numbers of their
own (`storage/journal/shard_log`, `peer/session`).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from tidemill.metadata.metadata_records import FeatureRecord, MetadataFormatError, Record
from tidemill.model.broker_id import BrokerId

OLDEST: Final = 1
"""The level of a broker that does not say which levels it supports."""

ELASTIC_CLUSTER: Final = 2
"""From this level on, the metadata may say what brokers support, that they are gone, and where replicas were before:
version 1 of BrokerRecord and of ReplicasRecord, BrokerStateRecord and RemoveBrokerRecord."""

NEWEST: Final = 2
"""The highest level that this version of Tidemill supports."""

FEATURE_NAME: Final = "tidemill.level"
"""The level's name among the features of the Kafka protocol (KIP-584)."""


def checked(records: Iterable[Record], newest: int) -> Iterator[Record]:
    """
    Yield `records`, which a broker is about to apply that supports levels up to `newest`.  Raise MetadataFormatError,
    before the next record is decoded, for one that raises the cluster above that.
    """
    for record in records:
        if isinstance(record, FeatureRecord) and record.level > newest:
            raise MetadataFormatError(
                f"the cluster is at feature level {record.level}; this version supports up to {newest}; "
                "upgrade Tidemill on this broker"
            )
        yield record


def recorded_level(cluster_level: int, level: int) -> int:
    """
    Return the level that a BrokerRecord gives for a broker that supports `level`.  An older cluster cannot record it:
    its brokers could not read the record.
    """
    return level if cluster_level >= ELASTIC_CLUSTER else OLDEST


def refusal_below(needed: int, cluster_level: int, action: str) -> str | None:
    """Return why `action`, whose records need level `needed`, is refused at the cluster's level; None if it is not."""
    if cluster_level >= needed:
        return None
    return (
        f"{action} needs feature level {needed}, and the cluster is at level {cluster_level}; when all brokers run a "
        "version of Tidemill that supports it, run `tidemill cluster upgrade`"
    )


def refusal_of_older(broker_id: BrokerId | None, level: int, cluster_level: int) -> str | None:
    """Return why a broker that supports `level` may not be part of a cluster; None if it may."""
    if level >= cluster_level:
        return None
    broker = "this broker" if broker_id is None else f"broker {broker_id}"
    return (
        f"the cluster is at feature level {cluster_level}, and the version of Tidemill on {broker} supports up to "
        f"{level}; upgrade Tidemill there"
    )
