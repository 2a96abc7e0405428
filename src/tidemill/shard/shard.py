"""Shard: one replica's log, its files, and its partitions.  The entrance of this folder.

append ─▶ replica.propose ─▶ replica.ready ─▶ store (queued) ─▶ … a block is durable … ─▶ advance ─▶ commit ─▶ apply,
wake

`execute` does the replica's work in the order of `raft/ready.py`.  Messages leave through the `RaftTransport` that the
broker passed in; messages of other replicas arrive by `receive`.
"""

from collections.abc import Callable
from typing import Final, Protocol

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic_config import TopicConfig
from tidemill.raft.entry import BATCH, Command, Entry, log_start, read_log_start
from tidemill.raft.messages import Message
from tidemill.raft.replica import Replica
from tidemill.raft.voters import Membership
from tidemill.shard.catch_up import CatchUp
from tidemill.shard.commit_waiters import CommitWaiters, Waiter
from tidemill.shard.damage import Damage
from tidemill.shard.install import Install, Stage
from tidemill.shard.jobs import Workers
from tidemill.shard.outgoing import Outgoing
from tidemill.shard.partition import Partition
from tidemill.shard.uncommitted import BYTES_MAX, Uncommitted
from tidemill.storage.journal.block import Report
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.store import Store

GIVE_WAY_MS: Final = 30_000  # the others may have no better copy, and hand back
NEAR_ROWS: Final = 64  # who lacks no more may vote, or lead: the rest is on its way


class RaftTransport(Protocol):
    """To the shard's replicas on other brokers, and to whoever must know here who leads."""

    def is_alive(self, voter: ReplicaKey) -> bool:
        """Its broker's loop turns and its journal syncs, as far as this broker has heard."""
        ...

    def may_lead(self, voter: ReplicaKey) -> bool:
        """It is alive, and does not hand over what it leads."""
        ...

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        """It arrives or is lost: whoever is owed an answer asks again."""
        ...

    def serving_changed(self, shard: "Shard") -> None:
        """`is_serving` is not what it was."""
        ...

    def damage_changed(self, shard: "Shard") -> None:
        """Files of it are not what was written; or they are again."""
        ...


class Shard:
    """Lives on the loop.  `is_serving` is false while it may neither answer produce nor know its high watermark."""

    __slots__ = (
        "_asked_serial",
        "_askers",
        "_catch_up",
        "_gives_way_from",
        "_install",
        "_is_damaged",
        "_is_stopped",
        "_led",
        "_next_askers",
        "_outgoing",
        "_served",
        "_transport",
        "_uncommitted",
        "damage",
        "durable_waiters",
        "held_waiters",
        "log",
        "needs_tick",
        "partitions",
        "replica",
        "shard_id",
        "store",
        "topic",
        "waiters",
        "wake",
    )

    def __init__(
        self,
        store: Store,
        log: ShardLog,
        me: ReplicaKey,
        topic: str,
        config: TopicConfig,
        wake: Callable[[], None],
        jitter_ms: Callable[[], int],
        transport: RaftTransport,
        workers: Workers,
    ) -> None:
        """`wake` is called when something has been queued for the journal; `jitter_ms` is the replica's."""
        self.store = store
        self.wake = wake
        self._transport = transport
        self.log = log
        self.shard_id: ShardId = log.shard_id
        self.topic = topic
        self.replica = Replica(
            me=me,
            memberships=list(log.memberships),
            term=log.term,
            voted_for=log.voted_for,
            log=log,
            commit_index=log.commit_index,
            jitter_ms=jitter_ms,
            installing=log.installing,
            is_damaged=log.damage is not None,
        )
        self.damage = Damage(
            store,
            log,
            self.replica,
            jobs=workers.read,
            high_watermarks=self._high_watermarks,
            changed=self._damaged,
        )
        suspect = self.damage.suspect
        self._outgoing = Outgoing(log, self._send, workers.read, self._cannot_send, suspect)
        self._catch_up = CatchUp(log, self.replica, self._send, workers.read, suspect)
        self._install = Install(
            store,
            log,
            self.replica,
            send=self._send,
            jobs=workers.background,
            high_watermarks=self._high_watermarks,
            changed=self._install_changed,
            failed=workers.failed,
            damaged=self.damage.mark,
        )
        self.damage.mark_found()
        self._is_damaged = False  # as it was told last
        self.needs_tick = True  # to be ticked: an idle shard costs nothing
        self._is_stopped = False
        self._led = False
        self._asked_serial = 0  # of the question to the voters that `_askers` wait for
        self._askers: list[Waiter] = []
        self._next_askers: list[Waiter] = []
        self._served = False  # as it was told last
        self._gives_way_from = 0
        self.waiters = CommitWaiters()
        self.durable_waiters = CommitWaiters()
        self.held_waiters: dict[int, CommitWaiters] = {}  # by how many voters must hold the entry
        self.partitions = {number: Partition(self, topic, it, config) for number, it in log.partitions.items()}
        uncommitted = [entry for entry in log.entries if entry.index > log.commit_index]
        self._uncommitted = Uncommitted(uncommitted)
        self._restore_watermarks(uncommitted)
        if log.damage is None:
            self._redo_trims()

    @property
    def is_serving(self) -> bool:
        return self.replica.is_confirmed and self.log.damage is None and not self._is_stopped

    @property
    def is_unconfirmed(self) -> bool:
        """Elected, and nothing of its term has committed: it may know less than was told to clients before."""
        return self.replica.leads and not (self.replica.is_confirmed or self._is_stopped) and self.log.damage is None

    @property
    def accepts_writes(self) -> bool:
        """It serves, and does not hand over: what is appended then would only make the next leader wait."""
        return self.is_serving and self.replica.may_propose

    @property
    def live_voters(self) -> int:
        """This one, and those that are whole and whose brokers are alive; of interest where it leads."""
        me, is_alive = self.replica.me, self._transport.is_alive
        matches = self.replica.status().matches
        return sum(voter == me or (is_alive(voter) and voter in matches) for voter in self.replica.voters)

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """A replica without a leader stands for election; a damaged one asks to be repaired."""
        is_journal_full = self.store.is_journal_full and self.store.has_pending
        self.replica.tick(now_ms, self.append_time(wall_ms), self._transport.is_alive, is_journal_full=is_journal_full)
        self._resume()
        self._install.tick(now_ms)
        if self._catch_up.tick() and now_ms >= self._gives_way_from:
            self._gives_way_from = now_ms + GIVE_WAY_MS
            self._give_way()
        self.needs_tick = self.replica.needs_tick or self._install.stage is not Stage.IDLE

    def receive(self, sender: ReplicaKey, message: Message) -> None:
        if not self._is_stopped:
            self.replica.receive(sender, message)
            self.needs_tick = True
            self._resume()

    def peer_restarted(self, voter: ReplicaKey) -> None:
        """Its broker's process is another than before."""
        self.replica.peer_restarted(voter)
        self.needs_tick = True

    def peer_reconnected(self, voter: ReplicaKey) -> None:
        """The link to its broker is new: what was on the way may be lost."""
        self.replica.peer_reconnected(voter)
        self._resume()

    def change_membership(self, membership: Membership, wall_ms: int) -> None:
        """Raises IllegalChange when it would put the log at risk now."""
        self.replica.change_membership(membership, self.append_time(wall_ms))
        self.execute()

    def transfer_leadership(self, to: ReplicaKey | None = None) -> bool:
        """Let another voter lead: `to`, or the one that has most.  False: it could not, as far as is known here."""
        replica = self.replica
        if not replica.leads:
            return False
        if replica.transfer_target is not None:  # begun anew each time it would never end
            return to in (None, replica.transfer_target)
        matches = replica.status().matches
        able = [voter for voter in replica.voters if voter in matches and self._transport.may_lead(voter)]
        if to is not None:
            able = [to] if to in able and replica.commit_index - matches[to] <= NEAR_ROWS else []
        if not able:
            return False
        replica.transfer_leadership(max(able, key=lambda voter: matches[voter]))
        self.needs_tick = True
        self._resume()
        return True

    def _give_way(self) -> None:
        """A member cannot be given what it needs from here."""
        others = (voter for voter in self.replica.voters if voter != self.replica.me)
        any(map(self.transfer_leadership, others))

    def propose(self, entry: Entry) -> int:
        """The entry's index.  Only where this replica leads."""
        index = self.replica.propose(entry)
        self.execute()
        return index

    def move_log_start(self, partition: int, offset: int, now_ms: int) -> int:
        """Records below `offset` go, on every replica; the index of the entry that says so."""
        return self.propose(log_start(partition, offset, self.append_time(now_ms)))

    @property
    def batch_bytes_max(self) -> int:
        """What the journals of all members can take at once, whatever the topic allows."""
        is_alone = len(self.replica.membership.members) == 1
        return self.store.batch_bytes_max if is_alone else self.store.replicated_batch_bytes_max

    def append_time(self, now_ms: int) -> int:
        """Never goes back within a shard."""
        return max(now_ms, self.log.last_append_time)

    def when_committed(self, index: int, waiter: Waiter) -> None:
        replica = self.replica
        if index <= replica.commit_index and index <= replica.durable_index:
            waiter(True)
        elif self._is_stopped:
            waiter(False)
        else:
            self.waiters.add(index, waiter)

    def when_replicated(self, index: int, voter_count: int, waiter: Waiter) -> None:
        """Committed, and on the disks of so many voters: which may be more than commit it."""
        if index <= self.replica.replicated_index(voter_count):
            waiter(True)
        elif self._is_stopped:
            waiter(False)
        else:
            self.held_waiters.setdefault(voter_count, CommitWaiters()).add(index, waiter)

    def stop_waiting(self, index: int, waiter: Waiter) -> None:
        """For a commit, or for voters that hold it: its time is over."""
        for waiters in (self.waiters, *self.held_waiters.values()):
            waiters.remove(index, waiter)

    def when_durable(self, index: int, waiter: Waiter) -> None:
        """On this disk, and not further ahead of what is committed than a leader may be (`shard/uncommitted.py`)."""
        if index <= self._near_index:
            waiter(True)
        elif self._is_stopped:
            waiter(False)
        else:
            self.durable_waiters.add(index, waiter)

    @property
    def _near_index(self) -> int:
        durable, near = self.replica.durable_index, self._uncommitted.near_index
        return durable if near is None or near > durable else near

    @property
    def _is_alone(self) -> bool:
        """The only voter; a leader that has appended its own removal is none, and others may have elected another."""
        return self.replica.voters == (self.replica.me,)

    @property
    def has_replication_credit(self) -> bool:
        """What other replicas lack has a bound, whoever waits for it; a lone one lacks only what requests may hold."""
        return self._uncommitted.bytes < BYTES_MAX or self._is_alone

    def confirm_leadership(self, waiter: Waiter) -> None:
        """
        True once a majority has said, after this call, that it follows this leader: what was committed then may be
        answered from (Ongaro's thesis §6.4).  One question at a time serves all who came before it was asked.
        """
        if not self.is_serving:
            waiter(False)
        elif self._is_alone:
            waiter(True)
        else:
            self._next_askers.append(waiter)
            if not self._askers:
                self._ask()

    def _ask(self) -> None:
        self._askers, self._next_askers = self._next_askers, []
        self._asked_serial = self.replica.request_read_index()
        self.execute()

    def _answer_askers(self) -> None:
        if self.replica.read_index_round >= self._asked_serial:
            askers, self._askers = self._askers, []
            if self._next_askers:
                self._ask()
            for waiter in askers:
                waiter(True)

    def execute(self) -> None:
        ready = self.replica.ready()
        if ready.vote is not None:
            self.store.vote(self.shard_id, self.log, ready.vote.term, ready.vote.voted_for)
        if ready.truncate_from is not None:
            self.store.truncate(self.log, ready.truncate_from)
            self._uncommitted.truncate(ready.truncate_from)
        if ready.entries:
            self.store.append(self.log, ready.entries)
            self._uncommitted.extend(ready.entries)
        for voter, message in ready.messages:
            self._outgoing.send(voter, message)
        for member in ready.installs:
            self._catch_up.offer(member)
        for member, pull in ready.pulls:
            self._catch_up.answer(member, pull)
        if ready.offer is not None:
            self._install.offered(ready.offer)
        for chunk in ready.chunks:
            self._install.received(chunk)
        self.wake()

    def advance(self, report: Report) -> None:
        """The report's part of this shard is durable."""
        self.replica.advance(report.term, report.log_index, report.vote)
        if report.is_installing:
            self._install.row_is_durable()
        self._resume()
        self._install.resume()

    def _resume(self) -> None:
        """The replica was told something: do what it asks for, and tell whoever waited for it."""
        replica = self.replica
        if self._led and not replica.leads:
            self._led = False
            self._lost()
        if replica.has_ready:
            self.execute()
        self._led = self.log.is_led = replica.leads
        stable_index = replica.stable_index
        if stable_index > self.log.commit_index:
            self._apply(stable_index)
        self.durable_waiters.wake(self._near_index)
        if self.held_waiters:
            self._wake_held()
        if self._askers:
            self._answer_askers()
        if self._served != self.is_serving:
            self._served = not self._served
            self._transport.serving_changed(self)
        if self._is_damaged != replica.is_damaged:
            self._is_damaged = not self._is_damaged
            self._transport.damage_changed(self)

    def _damaged(self) -> None:
        """The journal is about to say so."""
        self.needs_tick = True
        self.wake()
        self._resume()

    def _wake_held(self) -> None:
        for voter_count, waiters in [*self.held_waiters.items()]:
            waiters.wake(self.replica.replicated_index(voter_count))
            if not waiters:
                self.held_waiters.pop(voter_count, None)

    def _lost(self) -> None:
        """Another leads, or nobody: whether what waits will commit is not known any more."""
        askers = self._askers + self._next_askers
        self._askers, self._next_askers = [], []
        for waiter in askers:
            waiter(False)
        try:
            self._fail_waiters()
        finally:
            for partition in self.partitions.values():
                partition.notify()

    def _fail_waiters(self) -> None:
        held, self.held_waiters = self.held_waiters, {}
        for waiters in (self.waiters, self.durable_waiters, *held.values()):
            waiters.fail()

    # Installs: `shard/catch_up.py` where it leads, `shard/install.py` where it follows.

    def _send(self, to: ReplicaKey, message: Message) -> None:
        self.needs_tick = True
        self._transport.send(self.shard_id, to, message)

    def _cannot_send(self, to: ReplicaKey) -> None:
        """What `to` needs next is not needed here any more, and gone."""
        self.replica.needs_install(to)

    def _high_watermarks(self) -> dict[int, int]:
        return {number: partition.high_watermark for number, partition in self.partitions.items()}

    def _install_changed(self) -> None:
        """The partitions are others: on their way to a snapshot, or there."""
        self._uncommitted.clear()
        is_there = self.replica.installing is None
        for partition in self.partitions.values():
            end_offset = partition.log.end_offset
            known = end_offset if is_there else min(partition.high_watermark, end_offset)
            partition.high_watermark = max(known, partition.log_start)
            partition.notify()
        if is_there and self.log.damage is not None and not self.replica.is_damaged:
            self.replica.mark_damaged()  # while it was installed
        self.wake()

    def _apply(self, commit_index: int) -> None:
        moved: dict[Partition, None] = {}
        for entry in self._uncommitted.committed(commit_index):
            if entry.kind == BATCH:
                partition = self.partitions[entry.partition]
                partition.high_watermark = entry.base_offset + entry.record_count
                moved[partition] = None
            elif entry.payload and entry.payload[0] == Command.LOG_START:
                self._move_log_start(entry)
        self.log.commit(commit_index, self.replica.needed_index, self.store.options.tail_entries)
        try:
            self.waiters.wake(commit_index)
        finally:
            for partition in moved:
                if partition.watchers:
                    partition.notify()

    def _move_log_start(self, entry: Entry) -> None:
        """What is committed may go: the store settles it, and unlinks when that is durable."""
        assert entry.payload is not None, f"{entry} has lost its command"
        number, offset = read_log_start(entry.payload)
        if offset > self.partitions[number].log.log_start:
            self.partitions[number].log.log_start = offset
            self.store.trim(self.log, number, offset)
            self.wake()

    def _redo_trims(self) -> None:
        """The broker fell when a checkpoint knew of a log start, and the row that settles it was not written yet."""
        for number, it in self.log.partitions.items():
            if it.trimmed < it.log_start:
                self.store.trim(self.log, number, it.log_start)

    def _restore_watermarks(self, uncommitted: list[Entry]) -> None:
        """What lies before the first entry that is not known to be committed is."""
        for partition in self.partitions.values():
            partition.high_watermark = partition.log.end_offset
        for entry in reversed(uncommitted):
            if entry.kind == BATCH:
                self.partitions[entry.partition].high_watermark = entry.base_offset

    def stop(self) -> None:
        """Whoever waits, or comes to wait, is told that the outcome is not known."""
        self._is_stopped = True
        self._install.stop()
        self._lost()
        if self._served:
            self._served = False
            self._transport.serving_changed(self)
