"""The tally of one election or pre-vote: which voters have granted their vote, and which have refused it.

A pre-vote asks whether a majority would vote for this replica, and changes no term (Ongaro's thesis §9.6).  If it
would, an election follows in the next term.
"""

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft import quorum


class Election:
    def __init__(self, me: ReplicaKey, *, is_pre: bool, is_transfer: bool = False) -> None:
        self.is_pre = is_pre
        self.is_transfer = is_transfer
        # The candidate's own vote counts immediately in a pre-vote, but in an election only once it is durable.
        self._granted = {me} if is_pre else set[ReplicaKey]()
        self._refused: set[ReplicaKey] = set()

    def count(self, voter: ReplicaKey, *, is_granted: bool) -> None:
        """Count the first answer of `voter`, and ignore further ones."""
        if voter not in self._granted and voter not in self._refused:
            (self._granted if is_granted else self._refused).add(voter)

    def is_won(self, voters: tuple[ReplicaKey, ...]) -> bool:
        return quorum.has_majority(voters, self._granted)

    def is_lost(self, voters: tuple[ReplicaKey, ...]) -> bool:
        return quorum.cannot_win(voters, self._refused)
