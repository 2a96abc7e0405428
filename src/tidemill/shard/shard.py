"""Shard: one replica's log, its files, and its partitions.  The entrance of this folder.

append ─▶ replica.propose ─▶ replica.ready ─▶ store (queued) ─▶ … a block is durable … ─▶ advance ─▶ commit ─▶ apply,
wake

`carry_out` does what the replica asks for, in the order of `raft/ready.py`; messages to peers have no road yet.
"""

from collections import deque
from collections.abc import Callable

from tidemill.model.broker_id import Voter
from tidemill.model.shard import ShardId
from tidemill.model.topic_config import TopicConfig
from tidemill.raft.entry import BATCH, Command, Entry, log_start, read_log_start
from tidemill.raft.replica import Replica, nobody
from tidemill.shard.commit_waiters import CommitWaiters, Waiter
from tidemill.shard.partition import Partition
from tidemill.storage.block import Report
from tidemill.storage.shard_log import ShardLog
from tidemill.storage.store import Store


class Shard:
    """Lives on the loop.  `is_serving` is false while it may neither answer produce nor know its high watermark."""

    __slots__ = (
        "_is_stopped",
        "_uncommitted",
        "durable_waiters",
        "log",
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
        me: Voter,
        topic: str,
        config: TopicConfig,
        wake: Callable[[], None],
        jitter_ms: Callable[[], int],
    ) -> None:
        """`wake` is called when something has been queued for the journal; `jitter_ms` is the replica's."""
        membership = log.memberships[-1][1]
        if membership.members != (me,):
            raise ValueError(
                f"shard {log.shard_id} has the members {membership.members}: "
                f"brokers do not replicate yet; only {me} alone can be opened"
            )
        self.store = store
        self.wake = wake
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
        )
        self._is_stopped = False
        self.waiters = CommitWaiters()
        self.durable_waiters = CommitWaiters()
        expiration_ms = store.options.producer_expiration_ms
        self.partitions = {
            number: Partition(self, topic, it, config, producer_expiration_ms=expiration_ms)
            for number, it in log.partitions.items()
        }
        self._uncommitted: deque[Entry] = deque(entry for entry in log.entries if entry.index > log.commit_index)
        self._restore_watermarks()
        if log.damage is None:
            self._settle_again()

    @property
    def is_serving(self) -> bool:
        return self.replica.is_confirmed and self.log.damage is None and not self._is_stopped

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """A replica without a leader stands for election; a damaged one does not."""
        if self.log.damage is None:
            self.replica.tick(now_ms, self.append_time(wall_ms), nobody)
            if self.replica.has_ready:
                self.carry_out()

    def propose(self, entry: Entry) -> int:
        """The entry's index.  Only where this replica leads."""
        index = self.replica.propose(entry)
        self.carry_out()
        return index

    def move_log_start(self, partition: int, offset: int, now_ms: int) -> int:
        """Records below `offset` go, on every replica; the index of the entry that says so."""
        return self.propose(log_start(partition, offset, self.append_time(now_ms)))

    @property
    def batch_bytes_max(self) -> int:
        """What the journal can take at once, whatever the topic allows."""
        return self.store.batch_bytes_max

    def append_time(self, now_ms: int) -> int:
        """Never goes back within a shard."""
        return max(now_ms, self.log.last_append_time)

    def when_committed(self, index: int, waiter: Waiter) -> None:
        if index <= self.replica.stable_index:
            waiter(True)
        elif self._is_stopped:
            waiter(False)
        else:
            self.waiters.add(index, waiter)

    def when_confirmed(self, waiter: Waiter) -> None:
        """The first entry of the present reign has committed, or, without one, of the next."""
        replica = self.replica
        self.when_committed(replica.term_start_index if replica.leads else replica.last_index + 1, waiter)

    def when_durable(self, index: int, waiter: Waiter) -> None:
        if index <= self.replica.durable_index:
            waiter(True)
        elif self._is_stopped:
            waiter(False)
        else:
            self.durable_waiters.add(index, waiter)

    def carry_out(self) -> None:
        ready = self.replica.ready()
        if ready.vote is not None:
            self.store.vote(self.shard_id, self.log, ready.vote.term, ready.vote.voted_for)
        if ready.truncate_from is not None:
            self.store.truncate(self.log, ready.truncate_from)
            while self._uncommitted and self._uncommitted[-1].index >= ready.truncate_from:
                self._uncommitted.pop()
        assert not ready.messages and not ready.installs, "there is no road to other brokers yet"
        if ready.entries:
            self.store.append(self.log, ready.entries)
            self._uncommitted.extend(ready.entries)
        self.wake()

    def advance(self, report: Report) -> None:
        """The report's part of this shard is durable."""
        replica = self.replica
        moved = replica.advance(report.term, report.log_index, report.vote)
        if replica.has_ready:
            self.carry_out()
        self.durable_waiters.wake(replica.durable_index)
        if moved:
            self._apply(replica.stable_index)

    def _apply(self, commit_index: int) -> None:
        uncommitted = self._uncommitted
        moved: dict[Partition, None] = {}
        while uncommitted and uncommitted[0].index <= commit_index:
            entry = uncommitted.popleft()
            if entry.kind == BATCH:
                partition = self.partitions[entry.partition]
                partition.high_watermark = entry.base_offset + entry.record_count
                moved[partition] = None
            elif entry.payload and entry.payload[0] == Command.LOG_START:
                self._move_log_start(entry)
        self.log.commit(commit_index)
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
            self.store.settle(self.log, number, offset)
            self.wake()

    def _settle_again(self) -> None:
        """The broker fell when a checkpoint knew of a log start, and the row that settles it was not written yet."""
        for number, it in self.log.partitions.items():
            if it.settled < it.log_start:
                self.store.settle(self.log, number, it.log_start)

    def _restore_watermarks(self) -> None:
        """What lies before the first entry that is not known to be committed is."""
        for partition in self.partitions.values():
            partition.high_watermark = partition.log.end_offset
        for entry in reversed(self._uncommitted):
            if entry.kind == BATCH:
                self.partitions[entry.partition].high_watermark = entry.base_offset

    def stop(self) -> None:
        """Whoever waits, or comes to wait, is told that the outcome is not known."""
        self._is_stopped = True
        self.waiters.fail()
        self.durable_waiters.fail()
        for partition in self.partitions.values():
            partition.notify()
