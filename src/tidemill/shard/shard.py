"""Shard: one replica with its log, its files and its partitions.  This module is the entry point of the folder.

    append ─▶ replica.propose ─▶ replica.ready ─▶ store (queued) ─▶ a block is durable ─▶ replica.advance ─▶ commit
           ─▶ apply, wake waiters

`execute` does the replica's work in the order that `raft/ready.py` prescribes.  Messages are sent through a
`RaftTransport`; the broker passes messages from other replicas to `receive`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.timer_logs import arrivals_of, is_hidden, kept_of
from tidemill.model.topic_config import TopicConfig
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry, log_start, read_log_start
from tidemill.raft.messages import AppendEntries, Message
from tidemill.raft.replica import Replica
from tidemill.raft.voters import Membership
from tidemill.shard.catch_up import CatchUp
from tidemill.shard.commit_waiters import Waiter
from tidemill.shard.copy_pacing import CopyPacing
from tidemill.shard.damage import Damage
from tidemill.shard.entry_waiters import EntryWaiters
from tidemill.shard.install import Install, Stage
from tidemill.shard.jobs import Workers
from tidemill.shard.learner_pacing import LearnerPacing
from tidemill.shard.outgoing import Outgoing
from tidemill.shard.partition import Partition
from tidemill.shard.raft_transport import RaftTransport
from tidemill.shard.read_index import ReadIndex
from tidemill.shard.uncommitted import BYTES_MAX, Uncommitted
from tidemill.shard.waiting_trims import WaitingTrims
from tidemill.storage.journal.block import Report
from tidemill.storage.journal.shard_log import TIMER_KIND, ShardLog
from tidemill.storage.machine.shard_machine import UnknownCommand
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.store import Store
from tidemill.timer.release_clock import stamp

# The time between two calls of `_yield_leadership`.  It is long, because a successor with the same damage yields, too.
YIELD_MS: Final = 30_000
NEAR_ROWS: Final = 64  # a replica that lags by at most this many rows counts as caught up: the rows may be in flight


class ShardObserver(Protocol):
    """
    The broker that hosts a shard.  It is notified when the shard starts or stops serving, is damaged or repaired, or
    gets other members.
    """

    def serving_changed(self, shard: "Shard") -> None:
        """Called when `shard.is_serving` has changed."""
        ...

    def damage_changed(self, shard: "Shard") -> None:
        """Called when the shard's files on this broker have been found damaged, or have been repaired."""
        ...

    def membership_changed(self, shard: "Shard") -> None:
        """Called when this replica, as the leader, has put another membership in force."""
        ...


class Shard:
    """
    One shard on this broker, and the `InstallOwner` of its installs.  Runs on the event loop.  While `is_serving` is
    False, the shard accepts no records, and its high watermarks may be outdated.
    """

    __slots__ = (
        "_catch_up",
        "_install",
        "_is_damaged",
        "_is_stopped",
        "_learners",
        "_led",
        "_observer",
        "_outgoing",
        "_read_index",
        "_served",
        "_transport",
        "_uncommitted",
        "_yields_from",
        "damage",
        "has_timers",
        "log",
        "needs_tick",
        "partitions",
        "replica",
        "shard_id",
        "store",
        "topic",
        "waiters",
        "waiting_trims",
        "wake",
    )

    def __init__(
        self,
        store: Store,
        log: ShardLog,
        me: ReplicaKey,
        topic: str,
        config: TopicConfig,
        *,
        wake: Callable[[], None],
        jitter_ms: Callable[[], int],
        transport: RaftTransport,
        observer: ShardObserver,
        workers: Workers,
        pacing: CopyPacing | None = None,
    ) -> None:
        """
        Open a shard with the state that recovery has read into `log`.  `wake` is called when rows may have been queued
        for the journal; `jitter_ms` returns the random part of the replica's election timeout.  Without `pacing`,
        nothing that is sent to learners has to wait.
        """
        self.store = store
        self.wake = wake
        self._transport = transport
        self._observer = observer
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
            high_watermarks=self.high_watermarks,
            changed=self._damaged,
        )
        suspect = self.damage.suspect
        self._outgoing = Outgoing(log, self.send, workers.read, self.replica.needs_install, suspect)
        self._learners = LearnerPacing(log.shard_id, self.replica, pacing, self._send_on)
        self._catch_up = CatchUp(log, self.replica, self.send, workers.read, suspect, self._learners)
        self._install = Install(store, log, self.replica, self, workers)
        self.damage.mark_found()
        self.needs_tick = True  # False while the shard is idle, so that idle shards cost nothing
        self._is_stopped = False
        self._led = False  # whether the replica led at the last `_resume`
        self._served = False  # `is_serving`, as last reported to the observer
        self._is_damaged = False  # whether the replica is damaged, as last reported to the observer
        self._yields_from = 0
        uncommitted = [entry for entry in log.entries if entry.index > log.commit_index]
        self._uncommitted = Uncommitted(uncommitted)
        self.waiters = EntryWaiters(self.replica, self._uncommitted)
        self._read_index = ReadIndex(self.replica, self.execute)
        self.has_timers = log.descriptor.kind == TIMER_KIND
        self.partitions = {number: Partition(self, topic, it, config) for number, it in log.partitions.items()}
        if self.has_timers:
            for number, partition in self.released.items():
                partition.arrivals = self.partitions[arrivals_of(number)]
                partition.kept = self.partitions[kept_of(number)]
        self.waiting_trims = WaitingTrims(store, log, self.partitions, self._trim)
        self._restore_watermarks(uncommitted)
        if log.damage is None:
            self._redo_trims()

    # Properties that report the state of the shard.

    @property
    def is_serving(self) -> bool:
        return self.replica.is_confirmed and self.log.damage is None and not self._is_stopped

    @property
    def is_unconfirmed(self) -> bool:
        """
        Whether the replica is elected, but has not committed an entry of its term yet.  Until it has, its high
        watermarks may be lower than those that clients have seen.
        """
        return self.replica.leads and not (self.replica.is_confirmed or self._is_stopped) and self.log.damage is None

    @property
    def accepts_writes(self) -> bool:
        """
        Whether the shard serves and accepts new entries.  It accepts none during a leadership transfer, because they
        would delay the transfer.
        """
        return self.is_serving and self.replica.may_propose

    @property
    def live_voters(self) -> int:
        """
        The number of undamaged voters on live brokers, including this replica.  Only a leader knows this number.
        """
        me, is_alive = self.replica.me, self._transport.is_alive
        matches = self.replica.matches
        return sum(voter == me or (is_alive(voter) and voter in matches) for voter in self.replica.voters)

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that the journals of all members accept.  The topic's own limit may be lower or higher."""
        is_alone = len(self.replica.membership.members) == 1
        return self.store.batch_bytes_max if is_alone else self.store.replicated_batch_bytes_max

    @property
    def has_replication_credit(self) -> bool:
        """
        Whether the uncommitted bytes are below their bound.  The bound does not apply to a sole voter: its
        uncommitted bytes belong to requests in flight, which are already bounded.
        """
        return self._uncommitted.bytes < BYTES_MAX or self._is_alone

    @property
    def _is_alone(self) -> bool:
        """
        Whether this replica is the only voter.  False on a leader that has appended its own removal: the remaining
        voter may have been elected already.
        """
        return self.replica.voters == (self.replica.me,)

    @property
    def released(self) -> dict[int, Partition]:
        """The partitions that consumers read: all, except the logs in which records of a timer topic wait."""
        return {number: it for number, it in self.partitions.items() if not is_hidden(number)}

    @property
    def voters(self) -> tuple[ReplicaKey, ...]:
        return self.replica.voters

    @property
    def release_limit(self) -> int | None:
        """The time up to which records of a timer topic may be released, in ms; None while too few clocks are known."""
        return self._transport.release_limit(self.replica.voters)

    def append_time(self, now_ms: int) -> int:
        """
        Return the append time of a new entry: `now_ms`, or the last append time if that is later.  In a timer shard,
        where delays count from it, it must not follow a wrong clock of this broker.
        """
        last = self.log.last_append_time
        if not self.has_timers:
            return max(now_ms, last)
        limit = self.release_limit
        return last if limit is None else stamp(limit, now_ms, last)

    # Methods that handle time, messages and restarts of peers.

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """
        Pass the time to the replica and the installs: timeouts may make the replica campaign or repeat messages.
        `now_ms` is monotonic, `wall_ms` is wall-clock time.
        """
        is_journal_full = self.store.is_journal_full and self.store.has_pending
        self.replica.tick(now_ms, self.append_time(wall_ms), self._transport.is_alive, is_journal_full=is_journal_full)
        self._resume()
        self._install.tick(now_ms)
        if self._catch_up.tick() and now_ms >= self._yields_from:
            self._yields_from = now_ms + YIELD_MS
            self._yield_leadership()
        self.needs_tick = self.replica.needs_tick or self._install.stage is not Stage.IDLE

    def receive(self, sender: ReplicaKey, message: Message) -> None:
        if self._is_stopped:
            return
        if isinstance(message, AppendEntries):
            self._receive_entries(sender, message)
        else:
            self.replica.receive(sender, message)
        self.needs_tick = True
        self._resume()

    def _receive_entries(self, sender: ReplicaKey, append: AppendEntries) -> None:
        """
        Pass `append` to the replica, but only the entries before the first command that this version does not know.  If
        there is such a command, the replica then counts as damaged, as after an offer with an unknown section: it keeps
        its files, and neither votes nor acknowledges.
        """
        replica, registry = self.replica, self.log.machines.registry
        for at, entry in enumerate(append.entries):
            if entry.kind == COMMAND:
                try:
                    registry.check_command(self.shard_id, entry)
                except UnknownCommand as problem:
                    commit_index = min(append.commit_index, append.prev_index + at)
                    replica.receive(sender, replace(append, entries=append.entries[:at], commit_index=commit_index))
                    is_taken = append.term == replica.term and replica.installing is None and not replica.is_damaged
                    if is_taken:
                        self.log.damage = str(problem)
                        replica.mark_damaged()
                    return
        replica.receive(sender, append)

    def peer_restarted(self, voter: ReplicaKey) -> None:
        """Handle a restart of `voter`'s broker process."""
        self.replica.peer_restarted(voter)
        self.needs_tick = True

    def peer_reconnected(self, voter: ReplicaKey) -> None:
        """Handle a new connection to `voter`'s broker: messages in flight may have been lost."""
        self.replica.peer_reconnected(voter)
        self._resume()

    # Methods that have an effect only on the leader.

    def propose(self, entry: Entry) -> int:
        """Append `entry` and return its log index.  Call it only on the leader."""
        index = self.replica.propose(entry)
        self.execute()
        return index

    def move_log_start(self, partition: int, offset: int, now_ms: int) -> int:
        """
        Propose to delete the records of `partition` below `offset` on every replica.  Return the log index of the
        entry; the deletion takes effect when the entry commits.
        """
        return self.propose(log_start(partition, offset, self.append_time(now_ms)))

    def change_membership(self, membership: Membership, wall_ms: int) -> None:
        """Propose `membership`.  Raises IllegalChange if the change is currently unsafe."""
        self.replica.change_membership(membership, self.append_time(wall_ms))
        self._observer.membership_changed(self)
        self.execute()

    def begin_term(self) -> None:
        """Lead in a later term, with a short pause: no entry is accepted until all others are committed."""
        if self.replica.may_propose:
            self.replica.begin_term()
            self.needs_tick = True
            self._resume()

    def transfer_leadership(self, to: ReplicaKey | None = None) -> bool:
        """
        Transfer leadership to `to`, or, if `to` is None, to the most advanced voter that may lead.  Return whether a
        transfer to that voter is in progress: False if this replica does not lead, or if `to` may not lead or lags too
        far.
        """
        replica = self.replica
        if not replica.leads:
            return False
        if replica.transfer_target is not None:  # if every call began a new transfer, no transfer would ever time out
            return to in (None, replica.transfer_target)
        matches = replica.matches
        able = [voter for voter in replica.voters if voter in matches and self._transport.may_lead(voter)]
        if to is not None:
            able = [to] if to in able and replica.commit_index - matches[to] <= NEAR_ROWS else []
        if not able:
            return False
        replica.transfer_leadership(max(able, key=lambda voter: matches[voter]))
        self.needs_tick = True
        self._resume()
        return True

    def _yield_leadership(self) -> None:
        """Transfer leadership to any other voter, because a member needs bytes that are damaged on this broker."""
        others = (voter for voter in self.replica.voters if voter != self.replica.me)
        any(map(self.transfer_leadership, others))

    # Methods that add and remove waiters.

    def when_committed(self, index: int, waiter: Waiter) -> None:
        """Call `waiter` when the entry is committed, and durable on this broker."""
        self.waiters.when_committed(index, waiter)

    def when_replicated(self, index: int, voter_count: int, waiter: Waiter) -> None:
        """Call `waiter` when the entry is committed, and durable on `voter_count` voters, including this one."""
        self.waiters.when_replicated(index, voter_count, waiter)

    def when_durable(self, index: int, waiter: Waiter) -> None:
        """Call `waiter` when the entry is durable on this broker and near the commit index (`shard/uncommitted.py`)."""
        self.waiters.when_durable(index, waiter)

    def stop_waiting(self, index: int, waiter: Waiter) -> None:
        """Remove a waiter of `when_committed` or `when_replicated`."""
        self.waiters.stop_waiting(index, waiter)

    def confirm_leadership(self, waiter: Waiter) -> None:
        """
        Call `waiter` with True once a majority has confirmed, after this call, that it follows this leader.  A read
        may then return what was committed at the time of the call (`shard/read_index.py`).
        """
        if not self.is_serving:
            waiter(False)
        elif self._is_alone:
            waiter(True)
        else:
            self._read_index.wait(waiter)

    # Methods that do the work that the replica returns.

    def execute(self) -> None:
        """Do the replica's ready work: queue rows, send messages, and serve installs."""
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
        if self._learners.is_needed:
            self._learners.pace(ready)
        for member in ready.installs:
            self._catch_up.offer(member)
        for member, pull in ready.pulls:
            self._catch_up.answer(member, pull)
        if ready.offer is not None:
            self._install.offered(ready.offer)
        for chunk in ready.chunks:
            self._install.received(chunk)
        self.wake()

    def missing_bytes(self, member: ReplicaKey) -> int | None:
        """Return about how many bytes a member lacks that installs a snapshot; None before its first pull."""
        return self._catch_up.missing_bytes(member)

    def _send_on(self, learner: ReplicaKey) -> None:
        """Send what `learner` has waited for."""
        if not self._is_stopped:
            self.replica.pause(learner, is_paused=False)
            self._catch_up.answer_held(learner)
            self._resume()

    def advance(self, report: Report) -> None:
        """Handle a block that has become durable; `report` describes what it contains for this shard."""
        self.replica.advance(report.term, report.log_index, report.vote)
        if report.is_installing:
            self._install.row_is_durable()
        self._resume()
        self._install.resume()

    def _resume(self) -> None:
        """
        Do the replica's work, apply committed entries, and notify waiters and the observer.  Called whenever the
        replica's state may have changed.
        """
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
        self.waiters.wake()
        if self._read_index.waiting:
            self._read_index.wake()
        if self._served != self.is_serving:
            self._served = not self._served
            self._observer.serving_changed(self)
        if self._is_damaged != replica.is_damaged:
            self._is_damaged = not self._is_damaged
            self._observer.damage_changed(self)

    def _lost(self) -> None:
        """
        Call all waiters with False and notify the watchers: without leadership, this broker will not learn whether the
        awaited entries commit.
        """
        self._read_index.fail()
        try:
            self.waiters.fail()
        finally:
            for partition in self.partitions.values():
                partition.notify()

    def stop(self) -> None:
        """Stop serving: call every present or future waiter with False: the outcome of its entry is unknown."""
        self._is_stopped = True
        self.waiters.stop()
        self._install.stop()
        self._lost()
        if self._served:
            self._served = False
            self._observer.serving_changed(self)

    # Methods that apply committed entries.

    def _apply(self, commit_index: int) -> None:
        moved: dict[Partition, None] = {}
        for entry in self._uncommitted.committed(commit_index):
            if entry.kind == BATCH:
                partition = self.partitions[entry.partition]
                partition.high_watermark = entry.base_offset + entry.record_count
                moved[partition] = None
            elif entry.payload and entry.payload[0] == Command.LOG_START:
                self._move_log_start(entry)
        options = self.store.options
        self.log.commit(commit_index, self.replica.needed_index(options.absent_ms_max), options.tail_entries)
        try:
            self.waiters.committed.wake(commit_index)
        finally:
            for partition in moved:
                if partition.watchers:
                    partition.notify()

    def _move_log_start(self, entry: Entry) -> None:
        """
        Apply a committed LOG_START command: the store journals the trim, and removes segments when the row is durable.
        """
        assert entry.payload is not None, f"{entry} has lost its command"
        number, offset = read_log_start(entry.payload)
        partition = self.partitions[number]
        if not is_hidden(number):
            if offset > partition.log.log_start:
                partition.log.log_start = offset
                self._trim(number, offset)
        else:
            self.waiting_trims.committed(number, offset)

    def _trim(self, number: int, offset: int) -> None:
        self.store.trim(self.log, number, offset)
        self.wake()

    def _redo_trims(self) -> None:
        """
        Redo trims whose new log start is in a checkpoint, but whose row was not yet written when the broker crashed.
        """
        for number, it in self.log.partitions.items():
            if it.trimmed < it.log_start:
                self.store.trim(self.log, number, it.log_start)

    def _restore_watermarks(self, uncommitted: list[Entry]) -> None:
        """
        Set each high watermark to the base offset of the first batch not known to be committed, or to the end offset.
        """
        for partition in self.partitions.values():
            partition.high_watermark = partition.log.end_offset
        for entry in reversed(uncommitted):
            if entry.kind == BATCH:
                self.partitions[entry.partition].high_watermark = entry.base_offset

    # Callbacks from installs (a leader's `shard/catch_up.py`, a follower's `shard/install.py`) and from
    # `shard/damage.py`.

    def send(self, to: ReplicaKey, message: Message) -> None:
        self.needs_tick = True
        self._transport.send(self.shard_id, to, message)

    def high_watermarks(self) -> dict[int, int]:
        return {number: partition.high_watermark for number, partition in self.partitions.items()}

    def _damaged(self) -> None:
        """Wake the journal, because a damage mark has been queued for it."""
        self.needs_tick = True
        self.wake()
        self._resume()

    def damage_found(self, problem: SegmentDamaged) -> None:
        """Mark damage that an install has found in bytes that it should have kept."""
        self.damage.mark(problem)

    def install_changed(self) -> None:
        """Adjust the high watermarks: an install has changed the log and the partitions, or has ended."""
        self._uncommitted.clear()
        self.waiting_trims.clear()
        is_there = self.replica.installing is None
        for partition in self.partitions.values():
            end_offset = partition.log.end_offset
            known = end_offset if is_there else min(partition.high_watermark, end_offset)
            partition.high_watermark = max(known, partition.log_start)
            partition.notify()
        if is_there and self.log.damage is not None and not self.replica.is_damaged:
            self.replica.mark_damaged()  # files were found damaged while the install was in progress
        self.wake()
