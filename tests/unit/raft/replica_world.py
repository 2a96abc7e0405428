"""
Three replicas whose ticks, messages and syncs a test controls.  The test can also isolate or pause a replica, or fill
its journal.
"""

from collections import deque

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.entry import BATCH, Entry
from tidemill.raft.messages import Message
from tidemill.raft.replica import Replica
from tidemill.raft.voters import Membership

VOTERS = tuple(ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2, 3))
A, B, C = VOTERS
TICK_MS = 250


class Log:
    first_index = 1

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    @property
    def last_index(self) -> int:
        return len(self.entries)

    def term_at(self, index: int) -> int:
        return self.entries[index - 1].term if index else 0

    @property
    def last_append_time(self) -> int:
        return self.entries[-1].append_time if self.entries else 0

    def entry_at(self, index: int) -> Entry:
        return self.entries[index - 1]


class World:
    def __init__(self) -> None:
        self.now_ms = 1_000
        self.full: set[ReplicaKey] = set()
        self.paused: set[ReplicaKey] = set()
        self.unheard: set[ReplicaKey] = set()  # replicas that A considers dead
        self.deaf: set[ReplicaKey] = set()  # replicas that get no messages from A and consider it dead
        self.cut: set[ReplicaKey] = set()  # the connection between these two is broken
        self.logs = {it: Log() for it in VOTERS}
        self.mail: deque[tuple[ReplicaKey, ReplicaKey, Message]] = deque()
        self.replicas = {
            it: Replica(
                me=it,
                memberships=[(0, Membership(VOTERS))],
                term=0,
                voted_for=None,
                log=self.logs[it],
                commit_index=0,
                jitter_ms=lambda number=it.broker_id: 50 * number,
            )
            for it in VOTERS
        }

    def execute(self, me: ReplicaKey) -> None:
        replica, log = self.replicas[me], self.logs[me]
        while replica.has_ready:
            ready = replica.ready()
            if ready.truncate_from is not None:
                del log.entries[ready.truncate_from - 1 :]
            log.entries += ready.entries
            self.mail += [(me, to, message) for to, message in ready.messages]
            if me not in self.full and log.entries:
                replica.advance(log.entries[-1].term, log.last_index, ready.vote)
            elif ready.vote is not None:
                replica.advance(0, 0, ready.vote)  # votes are journaled even if the journal is full
            if not (ready.messages or ready.entries or ready.vote or ready.truncate_from):
                return

    def stabilize(self) -> None:
        """Deliver all messages, except those from and to paused replicas."""
        waiting: list[tuple[ReplicaKey, ReplicaKey, Message]] = []
        while self.mail:
            if self.paused.intersection(self.mail[0][:2]):
                waiting.append(self.mail.popleft())
            else:
                self.step()
        self.mail.extend(waiting)

    def step(self) -> None:
        """Deliver the oldest message."""
        sender, to, message = self.mail.popleft()
        if (sender == A and to in self.deaf) or {sender, to} == self.cut:
            return
        self.replicas[to].receive(sender, message)
        self.execute(to)

    def pass_time(self, ms: int) -> None:
        for _ in range(ms // TICK_MS):
            self.now_ms += TICK_MS
            for it in VOTERS:
                if it not in self.paused:
                    self._tick(it)
                    self.stabilize()

    def pass_ms(self, me: ReplicaKey, ms: int) -> None:
        """Advance the time by `ms` and tick one replica, without delivering any message."""
        self.now_ms += ms
        self._tick(me)

    def _tick(self, me: ReplicaKey) -> None:
        unheard = self.unheard if me == A else {A} if me in self.deaf else set[ReplicaKey]()
        if me in self.cut:
            unheard = unheard | self.cut - {me}
        self.replicas[me].tick(self.now_ms, self.now_ms, lambda it: it not in unheard, is_journal_full=me in self.full)
        self.execute(me)

    def propose(self, me: ReplicaKey, append_time: int = 0) -> None:
        self.replicas[me].propose(Entry(BATCH, b"", append_time=append_time or self.now_ms))
        self.execute(me)

    @property
    def leads(self) -> list[bool]:
        return [self.replicas[it].leads for it in VOTERS]
