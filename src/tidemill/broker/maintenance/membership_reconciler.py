"""MembershipReconciler: moves the voters of each shard that this broker leads towards the plan, one change at a time.

The image holds the planned replicas of a shard; the shard's own log holds its voters.  `raft/voters.step_towards`
returns the next change on the way from the voters to the plan.  Once no shard needs a change, nothing is checked until
the image changes or this broker starts or stops leading a shard.
"""

from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.metadata.growth import metadata_learners
from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import ReplicaKey, broker_list
from tidemill.model.shard import METADATA_SHARD
from tidemill.raft.replica import Replica
from tidemill.raft.voters import IllegalChange, step_towards
from tidemill.shard.shard import NEAR_ROWS, Shard

CHECK_MS: Final = 500


class MembershipReconciler:
    def __init__(self, machine: Machine, shard_table: ShardTable, cluster: Cluster) -> None:
        self._machine = machine
        self._shard_table = shard_table
        self._cluster = cluster
        self._checked_at = 0
        self._arrived: ClusterImage | None = None  # all shards led by this broker match the plan in this image

    def serving_changed(self) -> None:
        """Check all shards at the next tick: this broker has started or stopped leading a shard."""
        self._arrived = None

    def tick(self, image: ClusterImage) -> None:
        now_ms = self._machine.clock.monotonic_ms()
        if image is self._arrived or now_ms - self._checked_at < CHECK_MS:
            return
        self._checked_at = now_ms
        self._arrived = image  # reset below if a shard does not match
        for shard in self._shard_table.shards.values():
            planned = image.shards.get(shard.shard_id)
            if planned is None or not shard.is_serving:
                continue
            learners = metadata_learners(image) if shard.shard_id == METADATA_SHARD else ()
            membership = shard.replica.membership
            if set(membership.voters) != set(planned.replicas) or set(membership.learners) != set(learners):
                self._arrived = None
                if shard.accepts_writes:
                    self._lead(shard, planned.replicas, learners)

    def _lead(self, shard: Shard, replicas: tuple[ReplicaKey, ...], learners: tuple[ReplicaKey, ...]) -> None:
        replica = shard.replica
        membership = replica.membership
        step = step_towards(membership, replicas, self._caught_up(replica), planned_learners=learners)
        if step is None:
            return
        if replica.has_removed(step.members):
            shard.begin_term()
            return
        try:
            shard.change_membership(step, self._machine.clock.wall_ms())
        except IllegalChange:
            return  # the previous change has not committed yet
        self._machine.events.event(
            "membership", shard=shard.shard_id, voters=broker_list(step.voters), learners=broker_list(step.learners)
        )

    def _caught_up(self, replica: Replica) -> list[ReplicaKey]:
        """
        Return the members that are alive and near the end of the log, and have the previous change, or an entry of this
        leader.  A log may be so short that a member without any of it would be near its end, although it is not open;
        and a member whose disk has just been lost counts as alive for a while.
        """
        needed = max(replica.term_start_index, replica.membership_index)
        near = [
            member
            for member, match in replica.matches.items()
            if match >= needed and replica.commit_index - match <= NEAR_ROWS
        ]
        return [replica.me, *filter(self._cluster.is_alive, near)]
