"""Brokers and voters: one process, and one process on one data directory."""

from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
DirectoryId = NewType("DirectoryId", bytes)  # 16 random bytes: a new directory is a new voter


class ReplicaKey(NamedTuple):
    broker_id: BrokerId
    directory_id: DirectoryId
