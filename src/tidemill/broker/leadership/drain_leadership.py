"""Drains leadership: a broker that should not lead asks other brokers to lead its shards.

A broker drains while
  - it has no current metadata, and a peer has contact to the controller;
  - it has not become ready in time after its start, so that clients cannot reach it;
  - its disk is full, so that it refuses every write.

Heartbeats tell the peers that it drains, and peers transfer no leadership to it.  It still votes, and it goes on
leading a shard that no other broker can lead.
"""

from collections.abc import Callable
from typing import Final

from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.shards.free_space import FreeSpace
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.model.clock import Clock

READY_MS: Final = 3_000  # a broker that hears its peers is ready sooner after its start
RETRY_MS: Final = 5_000  # between two requests to the other replicas: their disks may be full, too


class DrainLeadership:
    def __init__(
        self,
        *,
        shard_table: ShardTable,
        cluster: Cluster,
        controller: ControllerHost,
        free_space: FreeSpace,
        is_ready: Callable[[], bool],
        clock: Clock,
        stall_tolerant_clock: Clock,
    ) -> None:
        """`is_ready`: the broker serves clients.  `stall_tolerant_clock` does not count the time of stalls."""
        self._shard_table = shard_table
        self._cluster = cluster
        self._controller = controller
        self._free_space = free_space
        self._is_ready = is_ready
        self._clock = clock
        self._stall_tolerant_clock = stall_tolerant_clock
        self._asked_at: int | None = None  # when the other replicas were asked last; None: ask at the next tick

    @property
    def is_draining(self) -> bool:
        """Another broker may have room, may have contact to the controller, or may be where clients reach it."""
        is_isolated = self._controller.is_stale and self._cluster.peers.has_controller_contact()
        is_late = not self._is_ready() and self._stall_tolerant_clock.monotonic_ms() > READY_MS
        return is_isolated or is_late or self._free_space.problem is not None

    def became_leader(self) -> None:
        """This broker was elected although it drains: ask the other replicas again at the next tick."""
        self._asked_at = None

    def tick(self) -> None:
        """Transfer leadership of every shard while this broker drains; called a few times a second."""
        if not self.is_draining:
            self._asked_at = None
            return
        now = self._clock.monotonic_ms()
        if self._asked_at is not None and now - self._asked_at < RETRY_MS:
            return
        self._asked_at = now
        for shard in [*self._shard_table.shards.values()]:
            shard.transfer_leadership()
