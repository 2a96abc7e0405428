"""Broker ids, directory ids and replica keys.

A broker is one process.  A replica key identifies a broker together with its data directory, so a broker that loses its
directory and gets a new one counts as a different voter (KIP-853).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
DirectoryId = NewType("DirectoryId", bytes)  # 16 random bytes, drawn when the directory is initialized

CONSUMER_REPLICA_ID: Final = -1  # the replica id in a consumer's requests, as in Kafka


class ReplicaKey(NamedTuple):
    broker_id: BrokerId
    directory_id: DirectoryId


def broker_ids(replicas: Iterable[ReplicaKey]) -> list[BrokerId]:
    return [replica.broker_id for replica in replicas]


def broker_list(replicas: Iterable[ReplicaKey]) -> str:
    """Return the broker ids of `replicas` as text for events and messages, such as "1,2,3"."""
    return ",".join(map(str, broker_ids(replicas)))
