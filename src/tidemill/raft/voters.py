"""The voters and learners of a shard, and how they change: one voter at a time.  Ongaro's thesis §4.

A change is an entry of the log.  It is in force from the moment it is appended, until it is truncated.

The controller plans the voters, and the shard's leader carries out the plan in single steps (`step_towards`).  The
order of the steps maximizes the number of failures that the shard can survive along the way, and keeps a member that is
down from delaying the others:

1. Learners do not count towards a majority.  So learners that are not planned are removed first, and all missing
   learners are added before any is promoted; the first learner to catch up is promoted first.
2. A voter whose broker has a new directory never answers again.  It is removed before any member is promoted: {1, 2,
   3old} needs both 1 and 2 for a majority, and so does {1, 2}, but {1, 2, 3old, 3new} would need three and be
   unavailable if 3new failed before its promotion committed.
3. Promotion precedes removal: on the way from {1, 2, 3} to {1, 2, 4}, the voters {1, 2, 3, 4} survive one failure, as
   before, but {1, 2} would survive none while 4 catches up.
4. Going from an even number of voters to an odd one by a removal costs no fault tolerance: four voters survive one
   failure, and so do three.  So however many voters a plan replaces, there is never more than one voter above the
   planned number.
5. A voter is removed only if the remaining voters that have caught up form a majority, and lagging voters are removed
   first: on the way from {1, 2, 3} to {1}, with 3 down, the voters must not become {1, 3}.
"""

from collections.abc import Collection
from dataclasses import dataclass

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import Buffer, decode_voters, encode_voters
from tidemill.raft.quorum import has_majority


@dataclass(frozen=True, slots=True)
class Membership:
    """The members of a shard.  `voters` elect and commit; `learners` only receive the log."""

    voters: tuple[ReplicaKey, ...]
    learners: tuple[ReplicaKey, ...] = ()

    @property
    def members(self) -> tuple[ReplicaKey, ...]:
        return self.voters + self.learners

    def encode(self) -> bytes:
        return encode_voters(self.voters) + encode_voters(self.learners)

    @classmethod
    def decode(cls, data: Buffer, position: int = 0) -> "Membership":
        voters, position = decode_voters(data, position)
        learners, _ = decode_voters(data, position)
        return cls(voters, learners)


class IllegalChange(ValueError):
    """A membership change is unsafe; the message gives the reason."""


def check_change(before: Membership, after: Membership) -> None:
    """Raise IllegalChange unless every old majority overlaps every new one, and every new voter was a learner."""
    joined = set(after.voters) - set(before.voters)
    left = set(before.voters) - set(after.voters)
    if len(joined) + len(left) > 1:
        raise IllegalChange(f"{len(joined)} voters would join and {len(left)} leave; change one at a time")
    if not after.voters:
        raise IllegalChange("no voter would be left")
    if not joined <= set(before.learners):
        raise IllegalChange(f"{joined.pop()} would vote before it has learned the log")
    if len(set(after.members)) != len(after.members):
        raise IllegalChange("a member is listed twice")


def step_towards(
    membership: Membership,
    planned: tuple[ReplicaKey, ...],
    caught_up: Collection[ReplicaKey],
    *,
    planned_learners: tuple[ReplicaKey, ...] = (),
) -> Membership | None:
    """
    Return the membership after the next single step towards the `planned` voters; None if no step is left, or no step
    is safe yet.

    `caught_up` contains the voters and learners that are alive and near the end of the log, including the leader.
    `planned_learners` are not promoted; the metadata shard has them, because every broker receives its log.
    """
    assert planned, "a shard has at least one voter"
    voters, learners = membership.voters, membership.learners
    wanted = planned + planned_learners
    stray = next((learner for learner in learners if learner not in wanted), None)
    if stray is not None:
        return Membership(voters, tuple(learner for learner in learners if learner != stray))
    planned_ids = {voter.broker_id for voter in wanted}
    leaving = [voter for voter in voters if voter not in planned]
    leaving.sort(key=lambda voter: voter in caught_up)  # a stable sort: lagging voters first
    replaced = [voter for voter in leaving if voter.broker_id in planned_ids and voter not in wanted]
    for voter in replaced:
        if len(voters) > 1 and _may_go(membership, voter, caught_up):
            return _without(membership, voter, planned_learners)
    newcomer = next((voter for voter in wanted if voter not in membership.members), None)
    if newcomer is not None:
        return Membership(voters, (*learners, newcomer))
    missing = [voter for voter in planned if voter not in voters]
    if not missing or (len(voters) % 2 == 0 and len(voters) > len(planned)):
        for voter in leaving:
            if _may_go(membership, voter, caught_up):
                return _without(membership, voter, planned_learners)
    promoted = next((voter for voter in missing if voter in caught_up), None)
    if promoted is not None:
        return Membership((*voters, promoted), tuple(learner for learner in learners if learner != promoted))
    return None


def _may_go(membership: Membership, leaving: ReplicaKey, caught_up: Collection[ReplicaKey]) -> bool:
    staying = [voter for voter in membership.voters if voter != leaving]
    return has_majority(staying, caught_up)


def _without(membership: Membership, leaving: ReplicaKey, planned_learners: tuple[ReplicaKey, ...]) -> Membership:
    staying = tuple(voter for voter in membership.voters if voter != leaving)
    learns_on = (leaving,) if leaving in planned_learners else ()
    return Membership(staying, membership.learners + learns_on)
