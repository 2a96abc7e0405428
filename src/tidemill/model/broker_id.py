"""Broker ids, directory ids and replica keys.

A broker is one process.  A replica key is a broker together with its data directory, so a broker that lost its
directory counts as a different voter (KIP-853).
"""

from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
DirectoryId = NewType("DirectoryId", bytes)  # 16 random bytes, drawn when the directory is initialized


class ReplicaKey(NamedTuple):
    broker_id: BrokerId
    directory_id: DirectoryId
