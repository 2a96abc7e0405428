"""Who votes in a shard, and who learns to.  Ongaro's thesis §4; changed one voter at a time.

A change is an entry of the log, in force from the moment it is appended, and out of force when it is truncated.
"""

from dataclasses import dataclass

from tidemill.model.broker_id import Voter
from tidemill.raft.entry import Buffer, decode_voters, encode_voters


@dataclass(frozen=True, slots=True)
class Membership:
    """`learners` are sent the log and count nowhere."""

    voters: tuple[Voter, ...]
    learners: tuple[Voter, ...] = ()

    @property
    def members(self) -> tuple[Voter, ...]:
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
