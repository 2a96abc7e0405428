"""The memberships that a log holds: the committed one, and changes that may still be truncated.  Ongaro's thesis §4.1.

A change is in force from the moment its entry is appended, whether or not it is committed.  Truncating the entry
restores the previous membership.
"""

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.voters import Membership


class Memberships:
    """
    The committed membership, and the later memberships in the log.

    Invariant: the first membership is committed, the log indexes are ascending, and `current` is the last membership.
    """

    __slots__ = ("_by_index", "current")

    def __init__(self, by_index: list[tuple[int, Membership]]) -> None:
        """`by_index` holds each membership with the log index from which it is in force."""
        self._by_index = by_index
        self.current = by_index[-1][1]

    @property
    def changed_at(self) -> int:
        """The log index of the entry that put the current membership in force."""
        return self._by_index[-1][0]

    def has_voter(self, member: ReplicaKey) -> bool:
        """Return whether `member` votes in the current membership or in one that a truncation can restore."""
        return any(member in membership.voters for _, membership in self._by_index)

    @property
    def is_committed(self) -> bool:
        """Whether no truncation can restore a membership before the current one."""
        return len(self._by_index) == 1

    def append(self, index: int, membership: Membership) -> None:
        self._by_index.append((index, membership))
        self.current = membership

    def truncate(self, from_index: int) -> None:
        while self._by_index[-1][0] >= from_index:
            self._by_index.pop()
        self.current = self._by_index[-1][1]

    def commit(self, index: int) -> None:
        """Record that the log is committed up to `index`, and drop the memberships that no truncation can restore."""
        while len(self._by_index) > 1 and self._by_index[1][0] <= index:
            del self._by_index[0]

    def installed(self, index: int, membership: Membership) -> None:
        """Forget all memberships but that of the installed snapshot, which ends at `index`."""
        self._by_index = [(index, membership)]
        self.current = membership
