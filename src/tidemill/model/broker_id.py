"""Broker ids, directory ids and replica keys.

A broker is one process.  A replica key identifies a broker together with its data directory, so a broker that lost its
directory and got a new one counts as a different voter (KIP-853).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
DirectoryId = NewType("DirectoryId", bytes)  # 16 random bytes, drawn when the directory is initialized

CONSUMER_REPLICA_ID: Final = -1  # Kafka's replica id in a request of a consumer


class ReplicaKey(NamedTuple):
    broker_id: BrokerId
    directory_id: DirectoryId


def broker_ids(replicas: Iterable[ReplicaKey]) -> list[BrokerId]:
    return [replica.broker_id for replica in replicas]


def broker_list(replicas: Iterable[ReplicaKey]) -> str:
    """Return the broker ids of `replicas` for events and messages: "1,2,3"."""
    return ",".join(map(str, broker_ids(replicas)))
