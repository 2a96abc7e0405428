"""Waiters for one entry of the log, at the three levels of durability that clients ask for.

    when_durable      durable here, and near the commit index (`shard/uncommitted.py`)      acks=0 and 1
    when_committed    committed, and durable here                                           acks=all
    when_held         also on the disks of min.insync.replicas voters, where that is more   acks=all

A waiter is called once: with True when the entry has got there, with False when its outcome is no longer known.
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
        self.replicated: dict[int, CommitWaiters] = {}  # by the number of voters that must hold the entry

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
        """Forget a waiter for a commit or for replicas, because its request has timed out."""
        for waiters in (self.committed, *self.replicated.values()):
            waiters.remove(index, waiter)

    @property
    def _near_index(self) -> int:
        durable, near = self._replica.durable_index, self._uncommitted.near_index
        return durable if near is None or near > durable else near

    def wake(self) -> None:
        """Wake the waiters for durability and for replicas.  The shard wakes `committed` when it applies entries."""
        self.durable.wake(self._near_index)
        if self.replicated:
            for voter_count, waiters in [*self.replicated.items()]:
                waiters.wake(self._replica.replicated_index(voter_count))
                if not waiters:
                    self.replicated.pop(voter_count, None)

    def fail(self) -> None:
        """Leadership is lost: another leader decides what becomes of the entries."""
        replicated, self.replicated = self.replicated, {}
        for waiters in (self.committed, self.durable, *replicated.values()):
            waiters.fail()

    def stop(self) -> None:
        """From now on, a waiter whose entry has not got there yet is called with False at once."""
        self._is_stopped = True
