"""The client requests that one node has accepted since its start: proposals to acknowledge and reads to confirm."""

from collections import deque
from dataclasses import dataclass

from tidemill.raft.entry import BATCH, Entry
from tidemill.raft.replica import Replica
from tidemill.simulation.shard.shard_check import ShardCheck


@dataclass(frozen=True, slots=True)
class _Read:
    round: int  # the read index round that confirms the read
    term: int
    served_index: int
    acknowledged: int  # the newest entry that had been acknowledged when the read began


class ClientRequests:
    def __init__(self, check: ShardCheck) -> None:
        self._check = check
        self._proposals: deque[tuple[int, int, bytes]] = deque()  # index, term, payload
        self._reads: list[_Read] = []

    def propose(self, replica: Replica, payload: bytes, append_time: int) -> None:
        index = replica.propose(Entry(BATCH, payload, append_time=append_time))
        self._proposals.append((index, replica.term, payload))

    def read(self, replica: Replica) -> None:
        newest = self._check.newest_acknowledged
        self._reads.append(_Read(replica.request_read_index(), replica.term, replica.stable_index, newest))

    def complete(self, replica: Replica) -> None:
        """Acknowledge the proposals that are committed, and check the reads that are confirmed."""
        self._acknowledge(replica)
        if self._reads and replica.leads:
            confirmed = replica.read_index_round
            self._reads = [read for read in self._reads if not self._is_done(read, replica, confirmed)]

    def _acknowledge(self, replica: Replica) -> None:
        """
        Acknowledge the proposals that are stable.  Drop the rest if this node no longer leads in the term in which they
        were proposed, because their outcome is unknown.
        """
        waiting = self._proposals
        while waiting and waiting[0][0] <= replica.stable_index and waiting[0][1] == replica.term:
            self._check.acknowledge(*waiting.popleft())
        if waiting and not (replica.leads and waiting[0][1] == replica.term):
            waiting.clear()

    def _is_done(self, read: _Read, replica: Replica, confirmed: int) -> bool:
        if read.term != replica.term:
            return True
        if confirmed < read.round:
            return False
        self._check.check_read(read.served_index, read.acknowledged)
        return True
