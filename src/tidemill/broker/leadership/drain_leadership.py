"""DrainLeadership: a broker that should not lead transfers its shards to other brokers.

A broker drains its leadership while one of these conditions holds:
  - it has lost contact with the controller, but a peer still has contact;
  - it has not become ready in time after its start, so clients cannot reach it;
  - its disk is full, so it refuses every write;
  - an operator drains it.  The plans stay, so the leaders come back by their preferences when the drain ends.

Heartbeats tell the peers that the broker is draining, and peers transfer no leadership to it.  It still votes, and
continues to lead any shard that no other broker can lead.
"""

from collections.abc import Callable
from typing import Final

from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.shards.free_space import FreeSpace
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_state import Drain
from tidemill.model.clock import Clock

READY_MS: Final = 3_000  # after its start, a broker in contact with its peers becomes ready within this time
RETRY_MS: Final = 5_000  # pause between attempts to transfer, which fail while the other brokers drain, too


class DrainLeadership:
    def __init__(
        self,
        *,
        shard_table: ShardTable,
        cluster: Cluster,
        controller: ControllerHost,
        free_space: FreeSpace,
        is_ready: Callable[[], bool],
        image: Callable[[], ClusterImage],
        clock: Clock,
        stall_tolerant_clock: Clock,
    ) -> None:
        """`is_ready` returns whether the broker serves clients."""
        self._shard_table = shard_table
        self._cluster = cluster
        self._controller = controller
        self._free_space = free_space
        self._is_ready = is_ready
        self._image = image
        self._clock = clock
        self._stall_tolerant_clock = stall_tolerant_clock
        self._asked_at: int | None = None  # time of the last attempt to transfer; None: try at the next tick

    @property
    def is_draining(self) -> bool:
        """Whether one of the conditions in the module docstring holds, so that this broker should not lead."""
        only_peers_have_contact = self._controller.has_lost_contact and self._cluster.peers.has_controller_contact()
        is_late = not self._is_ready() and self._stall_tolerant_clock.monotonic_ms() > READY_MS
        return only_peers_have_contact or is_late or self._free_space.problem is not None or self.is_drained

    @property
    def is_drained(self) -> bool:
        """Whether an operator drains this broker, of its leaders or of all that it has."""
        known = self._image().brokers.get(self._cluster.me.broker_id)
        return known is not None and known.voter == self._cluster.me and known.drain is not Drain.NONE

    def became_leader(self) -> None:
        """
        Record that this broker has been elected leader of a shard: if it is draining, it tries to transfer leadership
        at the next tick.
        """
        self._asked_at = None

    def tick(self) -> None:
        """
        If this broker is draining, try to transfer the leadership of every shard that it leads.  Called a few times a
        second.
        """
        if not self.is_draining:
            self._asked_at = None
            return
        now = self._clock.monotonic_ms()
        if self._asked_at is not None and now - self._asked_at < RETRY_MS:
            return
        self._asked_at = now
        for shard in [*self._shard_table.shards.values()]:
            shard.transfer_leadership()
