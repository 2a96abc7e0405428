"""A replica's view of its shard at one point in time, for reports and decisions outside `raft`."""

from dataclasses import dataclass

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.role import Role
from tidemill.raft.voters import Membership


@dataclass(slots=True)
class MemberStatus:
    """What a leader knows about another member.  Read-only; not frozen, because frozen classes are slower to create."""

    match_index: int  # the member's durable log matches the leader's up to this index
    commit_index: int  # the member's commit index, as the member last reported it
    is_installing: bool  # the member needs a snapshot, or is installing one
    repair_floor: tuple[int, int] | None  # if damaged: the term and index that a snapshot must reach to repair it

    @property
    def is_damaged(self) -> bool:
        return self.repair_floor is not None


@dataclass(slots=True)
class ReplicaStatus:
    """What a replica knows about its shard.  Read-only.  `members` is empty unless the replica leads."""

    role: Role
    term: int
    leader: ReplicaKey | None
    membership: Membership
    last_index: int
    durable_index: int
    commit_index: int
    members: dict[ReplicaKey, MemberStatus]
