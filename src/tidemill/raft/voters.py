"""Who votes in a shard, and who learns to.  Ongaro's thesis §4; changed one voter at a time.

A change is an entry of the log, in force from the moment it is appended, and out of force when it is truncated.

The controller plans who shall vote; the shard's leader goes there in steps (`step_towards`).  What decides their order
is how many failures the shard survives on the way, and that a member which is down holds up nobody else:

1. Learners count nowhere, so those that nobody wants any more go first, and all that are wanted come at once: the
   first that has caught up is promoted first.
2. A voter whose broker has another directory by now will never answer again, and goes before anything else is
   promoted.  {1, 2, 3old} needs both of the others, and so does {1, 2}; {1, 2, 3old, 3new} would need all three of
   them, and stand still when 3new fails before its promotion has committed.
3. Promote before remove: {1, 2, 3} on its way to {1, 2, 4} survives one failure, and so does {1, 2, 3, 4}; {1, 2}
   survives none, for as long as 4 learns.
4. Yet from an even number to an odd one nothing is lost (four voters survive one failure, like three), so a plan that
   replaces many never has more voters than one above the plan's number.
5. A voter goes only if those that stay and have caught up are a majority, and those that lag go first: {1, 2, 3} on its
   way to {1}, with 3 down, must not become {1, 3}.
"""

from collections.abc import Collection
from dataclasses import dataclass

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import Buffer, decode_voters, encode_voters
from tidemill.raft.quorum import has_majority


@dataclass(frozen=True, slots=True)
class Membership:
    """`learners` are sent the log and count nowhere."""

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
    """The sentence says what a plan has overlooked."""


def check_change(before: Membership, after: Membership) -> None:
    """Two majorities, of before and after, must always meet; and nobody votes who has not learned."""
    joined = set(after.voters) - set(before.voters)
    left = set(before.voters) - set(after.voters)
    if len(joined) + len(left) > 1:
        raise IllegalChange(f"{len(joined)} voters would join and {len(left)} leave: one at a time")
    if not after.voters:
        raise IllegalChange("no voter would be left")
    if not joined <= set(before.learners):
        raise IllegalChange(f"{joined.pop()} would vote before it has learned the log")
    if len(set(after.members)) != len(after.members):
        raise IllegalChange("a member is named twice")


def step_towards(
    membership: Membership,
    planned: tuple[ReplicaKey, ...],
    caught_up: Collection[ReplicaKey],
    *,
    planned_learners: tuple[ReplicaKey, ...] = (),
) -> Membership | None:
    """
    The next single step from `membership` to `planned` voters; None: there is none, or none yet.

    `caught_up`: members, voters too, that answer and are near the end of the log; the leader is one.
    `planned_learners` stay learners for good: every broker follows the metadata shard.
    """
    assert planned, "a shard keeps a voter"
    voters, learners = membership.voters, membership.learners
    wanted = planned + planned_learners
    stray = next((learner for learner in learners if learner not in wanted), None)
    if stray is not None:
        return Membership(voters, tuple(learner for learner in learners if learner != stray))
    planned_ids = {voter.broker_id for voter in wanted}
    leaving = [voter for voter in voters if voter not in planned]
    leaving.sort(key=lambda voter: voter in caught_up)  # stable: those that lag first, else in their order
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
