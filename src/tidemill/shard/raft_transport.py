"""The port to a shard's replicas on other brokers.  It is used by `shard/shard.py`."""

from collections.abc import Sequence
from typing import Protocol

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.messages import Message


class RaftTransport(Protocol):
    def is_alive(self, voter: ReplicaKey) -> bool:
        """
        Return whether recent heartbeats from the broker of `voter` show that its event loop is running and its journal
        is syncing.
        """
        ...

    def may_lead(self, voter: ReplicaKey) -> bool:
        """Return whether the broker of `voter` is alive and is not draining leadership."""
        ...

    def release_limit(self, voters: Sequence[ReplicaKey]) -> int | None:
        """
        Return the latest time that has certainly come by the clocks of these voters, in ms since the epoch; None while
        too few of them are known (`timer/release_clock.py`).
        """
        ...

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        """Send `message` without guaranteeing delivery: it may be lost, and the sender must be able to repeat it."""
        ...
