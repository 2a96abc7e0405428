"""One try to be elected: whom was asked, who has agreed.  Ongaro's thesis §9.6 for the pre-vote.

PRE_CANDIDATE   would a majority vote for me?  Nobody's term changes.
CANDIDATE       my term is one higher, my vote for myself is on disk, and a majority is asked for theirs
"""

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft import quorum


class Election:
    def __init__(self, me: ReplicaKey, *, is_pre: bool, is_transfer: bool = False) -> None:
        self.is_pre = is_pre
        self.is_transfer = is_transfer
        self._granted = {me} if is_pre else set[ReplicaKey]()  # its own vote counts once it is on disk, too
        self._refused: set[ReplicaKey] = set()

    def count(self, voter: ReplicaKey, *, is_granted: bool) -> None:
        """A voter counts once: what it said first stands."""
        if voter not in self._granted and voter not in self._refused:
            (self._granted if is_granted else self._refused).add(voter)

    def is_won(self, voters: tuple[ReplicaKey, ...]) -> bool:
        return quorum.has_majority(voters, self._granted)

    def is_lost(self, voters: tuple[ReplicaKey, ...]) -> bool:
        return quorum.cannot_win(voters, self._refused)
