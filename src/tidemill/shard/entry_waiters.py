"""Waiters for entries of the log, at the three levels of durability that clients can request.

    when_durable      durable on this broker and near the commit index (`shard/uncommitted.py`)    acks=0 and 1
    when_committed    committed, and durable on this broker                                        acks=all
    when_replicated   also durable on min.insync.replicas voters, if that is more than a majority  acks=all

A waiter is called once: with True when the entry is durable enough, or with False when its outcome has become unknown.
"""

from tidemill.raft.replica import Replica
from tidemill.shard.commit_waiters import CommitWaiters, Waiter
from tidemill.shard.uncommitted import Uncommitted


class EntryWaiters:
    __slots__ = ("_is_stopped", "_replica", "_uncommitted", "committed", "durable", "replicated")

    def __init__(self, replica: Replica, uncommitted: Uncommitted) -> None:
        self._replica = replica
        self._uncommitted = uncommitted
        self._is_stopped = False
        self.committed = CommitWaiters()
        self.durable = CommitWaiters()
        self.replicated: dict[int, CommitWaiters] = {}  # by the number of voters that must have the entry on disk

    def when_committed(self, index: int, waiter: Waiter) -> None:
        if index <= self._replica.stable_index:
            waiter(True)
        elif self._is_stopped:
            waiter(False)
        else:
            self.committed.add(index, waiter)

    def when_replicated(self, index: int, voter_count: int, waiter: Waiter) -> None:
        if index <= self._replica.replicated_index(voter_count):
            waiter(True)
        elif self._is_stopped:
            waiter(False)
        else:
            self.replicated.setdefault(voter_count, CommitWaiters()).add(index, waiter)

    def when_durable(self, index: int, waiter: Waiter) -> None:
        if index <= self._near_index:
            waiter(True)
        elif self._is_stopped:
            waiter(False)
        else:
            self.durable.add(index, waiter)

    def stop_waiting(self, index: int, waiter: Waiter) -> None:
        """Remove a waiter of `when_committed` or `when_replicated` whose request has timed out."""
        for waiters in (self.committed, *self.replicated.values()):
            waiters.remove(index, waiter)

    @property
    def _near_index(self) -> int:
        durable, near = self._replica.durable_index, self._uncommitted.near_index
        return durable if near is None or near > durable else near

    def wake(self) -> None:
        """
        Wake the waiters of `when_durable` and `when_replicated`.  The shard wakes the waiters of `when_committed` when
        it applies entries.
        """
        self.durable.wake(self._near_index)
        if self.replicated:
            for voter_count, waiters in [*self.replicated.items()]:
                waiters.wake(self._replica.replicated_index(voter_count))
                if not waiters:
                    self.replicated.pop(voter_count, None)

    def fail(self) -> None:
        """Call all waiters with False: leadership is lost, and another leader decides whether the entries commit."""
        replicated, self.replicated = self.replicated, {}
        for waiters in (self.committed, self.durable, *replicated.values()):
            waiters.fail()

    def stop(self) -> None:
        """From now on, call each new waiter immediately, with False if its entry is not durable enough yet."""
        self._is_stopped = True
