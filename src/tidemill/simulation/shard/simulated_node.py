"""One node of a simulated shard: a Raft replica with its journal, its clock and its view of the other nodes.

The node is a short model of everything around a replica: the broker, `shard/shard.py` and the journal.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import Entry
from tidemill.raft.messages import Message
from tidemill.raft.ready import Ready, Vote
from tidemill.raft.replica import Replica
from tidemill.raft.voters import Membership
from tidemill.simulation.shard.client_requests import ClientRequests
from tidemill.simulation.shard.model_install import ModelCatchUp, ModelInstall
from tidemill.simulation.shard.model_log import Damage, Installed, ModelLog, Row, control_rows_first
from tidemill.simulation.shard.shard_check import ShardCheck
from tidemill.simulation.shard.shard_network import ShardNetwork
from tidemill.simulation.shard.shard_world import ShardWorld

TICK_MS: Final = 50
HEARTBEAT_MS: Final = 100
ALIVE_MS: Final = 500  # without a heartbeat for this long, a node counts as dead
PULL_MS: Final = 500  # an unanswered pull of a snapshot is repeated after this time


class SimulatedNode:
    def __init__(
        self, world: ShardWorld, network: ShardNetwork, check: ShardCheck, voter: ReplicaKey, membership: Membership
    ) -> None:
        self.voter = voter
        self.disk = ModelLog(memberships=[(0, membership)])  # the durable log
        self.memory = self.disk.copy()  # the log of the running process, which is ahead of the disk
        self.replica: Replica | None = None  # None while the node is down
        self.paused_until_ms = 0
        self.full_until_ms = 0  # until this time, the journal has no room for entries
        self.has_forgotten = False  # entries were forgotten since the last turn, so a follower may need an install
        self.installs = 0
        self._world = world
        self._network = network
        self._check = check
        self._incarnation = 0
        self._clock_rate = 1.0
        self._heard_ms: dict[ReplicaKey, int] = {}  # when each node's last heartbeat arrived, on this node's clock
        self._alive: dict[ReplicaKey, bool] = {}
        self._queued: list[Row] = []
        self._block: list[Row] = []  # the rows that the running sync writes
        self._is_syncing = False
        self._pulled_ms = 0
        self._requests = ClientRequests(check)
        self._catch_up: ModelCatchUp | None = None
        self._install: ModelInstall | None = None
        # The disk, and a copy of it from before each damage, because the node may have acknowledged the lost entries.
        self._disks = [self.disk]
        check.disks[voter] = self._disks

    @property
    def is_up(self) -> bool:
        return self.replica is not None

    @property
    def is_damaged(self) -> bool:
        return self.disk.is_damaged or self.memory.is_damaged

    @property
    def leads(self) -> bool:
        return self.replica is not None and self.replica.leads

    @property
    def is_paused(self) -> bool:
        return self._world.now_ms < self.paused_until_ms

    @property
    def is_journal_full(self) -> bool:
        return self._world.now_ms < self.full_until_ms

    def clock_ms(self) -> int:
        return int(self._world.now_ms * self._clock_rate)

    # Starting and crashing the process.

    def start(self) -> None:
        world = self._world
        self._incarnation += 1
        self.disk.copied = ()
        self.memory = self.disk.copy()
        self._queued, self._block, self._is_syncing = [], [], False
        self.full_until_ms = 0
        self._requests = ClientRequests(self._check)
        self._heard_ms, self._alive = {}, {}
        self._clock_rate = 1 + world.random.uniform(-1, 1) * world.knobs.clock_rate
        self.replica = Replica(
            me=self.voter,
            memberships=list(self.memory.memberships),
            term=self.memory.vote.term,
            voted_for=self.memory.vote.voted_for,
            log=self.memory,
            commit_index=self.memory.commit_index,
            jitter_ms=lambda: world.random.randrange(20, 400),
            window=world.knobs.window,
            installing=self.memory.installing,
            is_damaged=self.memory.is_damaged,
        )
        self._catch_up = ModelCatchUp(self.replica, self.memory, lambda: world.random.randrange(1, 9))
        self._install = ModelInstall(self.replica, self.memory, self.disk, self._queue, self._sync_files)
        world.after(world.random.randrange(TICK_MS), self._guarded(self._tick))
        world.after(0, self._guarded(self._heartbeat))

    def crash(self) -> None:
        """
        Stop the process.  The next start finds either the complete block that is being written now, or none of it.
        """
        if self._is_syncing and self._world.random.random() < 0.5:
            self._to_disk()
        self.replica = None
        self._incarnation += 1

    def _crash_and_restart(self) -> None:
        self.crash()
        incarnation = self._incarnation

        def restart() -> None:
            if self._incarnation == incarnation:
                self.start()

        self._world.after(self._world.random.randrange(1, 400), restart)

    def _guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        """
        Return a wrapper of `call` that does nothing once this process has ended, and postpones the call while the
        process is paused.
        """
        # A function within this method that names itself would be garbage in a cycle, after each of many events.
        return partial(self._call, self._incarnation, call)

    def _call(self, incarnation: int, call: Callable[[], None]) -> None:
        if self._incarnation != incarnation:
            return
        if self.is_paused:
            self._world.after(self.paused_until_ms - self._world.now_ms, partial(self._call, incarnation, call))
            return
        call()

    # Running the replica.

    def _heartbeat(self) -> None:
        self._world.after(HEARTBEAT_MS, self._guarded(self._heartbeat))
        for receiver in self._network.receivers:
            if receiver != self.voter:
                self._network.send(self.voter, receiver, None)

    def _tick(self) -> None:
        assert self.replica is not None, "a node that is down does not tick"
        self._world.after(TICK_MS, self._guarded(self._tick))
        now = self.clock_ms()
        self._alive = {voter: now - at < ALIVE_MS for voter, at in self._heard_ms.items()}
        is_journal_full = self.is_journal_full and bool(self._queued)
        self.replica.tick(now, now, lambda voter: self._alive.get(voter, False), is_journal_full=is_journal_full)
        self.execute()

    def receive(self, sender: ReplicaKey, message: Message | None) -> None:
        """Handle a message, or a heartbeat if `message` is None."""
        assert self.replica is not None, "a node that is down receives nothing"
        if message is None:
            now = self.clock_ms()
            was_alive = now - self._heard_ms.get(sender, -ALIVE_MS) < ALIVE_MS
            self._heard_ms[sender] = now
            if was_alive and not self.has_forgotten:
                self._repeat_pull()  # another heartbeat from a live node changes nothing else
                return
            if not was_alive:
                self.replica.peer_reconnected(sender)
        else:
            self.replica.receive(sender, message)
        self.execute()

    def propose(self, payload: bytes) -> None:
        if self.replica is not None and self.replica.may_propose:
            self._requests.propose(self.replica, payload, self.clock_ms())
            self.execute()

    def read(self) -> None:
        if self.replica is not None and self.replica.is_confirmed:
            self._requests.read(self.replica)
            self.execute()

    def execute(self) -> None:
        """Execute the replica's ready work, start a sync, and apply committed entries."""
        replica = self.replica
        assert replica is not None, "a node that is down executes nothing"
        self.has_forgotten = False
        if replica.leads:
            self._check.check_leader(self.voter, replica.term)
        if replica.has_ready:
            self._execute_ready(replica, replica.ready())
        else:
            self._repeat_pull()
        self._sync()
        self._apply(replica)

    def _execute_ready(self, replica: Replica, ready: Ready) -> None:
        if ready.vote is not None:
            self._queue(ready.vote)
        if ready.truncate_from is not None:
            self._queue(ready.truncate_from)
        for row in ready.entries:
            self._queue(row)
        for receiver, message in [*ready.messages, *self._snapshot_messages(ready)]:
            self._network.send(self.voter, receiver, message)
        self._continue_install(replica, ready)

    def _apply(self, replica: Replica) -> None:
        stable = replica.stable_index
        if stable > self.memory.commit_index:
            for index in range(max(self.memory.commit_index + 1, self.memory.first_index), stable + 1):
                entry = self.memory.entry_at(index)
                self._check.check_committed(self.voter, index, entry.term, bytes(entry.payload or b""))
            self.memory.commit_index = stable
            self.disk.commit_index = min(stable, self.disk.last_index)
        if replica.leads:
            self._check.check_majority(replica, self.memory)
            self._check.check_confirmed(self.voter, replica)
        self._requests.complete(replica)

    # Writing the journal.

    def _queue(self, row: Row) -> None:
        self.memory.put(row)
        self._queued.append(row)

    def _sync(self) -> None:
        if self._is_syncing or not self._queued:
            return
        block, waiting = control_rows_first(self._queued) if self.is_journal_full else (self._queued, [])
        if not block:
            return  # the full journal has room for none of the rows; the next tick tries again
        self._is_syncing = True
        self._block, self._queued = block, waiting
        entries = [row for row in self._block if isinstance(row, Entry) and self.memory.holds(row)]
        votes = [row for row in self._block if isinstance(row, Vote)]
        newest = (entries[-1].term, entries[-1].index) if entries else (0, 0)
        for row in self._block:
            if isinstance(row, Installed):
                newest = (row.term, row.index)
        world, knobs = self._world, self._world.knobs
        duration_ms = 1 + int(world.random.expovariate(1 / knobs.sync_ms))
        if world.is_healed:
            duration_ms = 1
        elif world.random.random() < knobs.slow_sync:
            duration_ms *= 50

        def synced() -> None:
            block = self._block
            self._to_disk()
            self._is_syncing = False
            assert self.replica is not None, "a node that is down syncs nothing"
            self.replica.advance(*newest, vote=votes[-1] if votes else None)
            self._rows_synced(block)
            self.execute()

        world.after(duration_ms, self._guarded(synced))
        if votes and not world.is_healed and world.random.random() < knobs.crash_in_sync:
            world.after(world.random.randrange(duration_ms), self._guarded(self._crash_and_restart))

    def _to_disk(self) -> None:
        before = self.disk.vote
        for row in self._block:
            if isinstance(row, Damage):
                self._disks.append(self.disk.copy())
            self.disk.put(row)
        self._block = []
        self._check.check_vote(self.voter, before, self.disk.vote)

    def forget(self, below: int) -> None:
        """
        Drop the entries below the index `below` from memory.  They are committed and durable, and the files still hold
        them.
        """
        self.memory.forget(below)
        self.disk.forget(below)
        self.has_forgotten = True

    def damage(self, keep: int) -> None:
        """Lose all entries in the files except the first `keep`.  Do not call this during an install."""
        assert self.replica is not None, "a node that is down finds no damage"
        self._queue(Damage(keep))
        self.replica.mark_damaged()
        self.execute()

    # Installing snapshots.

    def _snapshot_messages(self, ready: Ready) -> list[tuple[ReplicaKey, Message]]:
        assert self._catch_up is not None, "a node that is down leads no replica"
        offers = [self._catch_up.offer(member) for member in ready.installs]
        return offers + [self._catch_up.answer(member, pull) for member, pull in ready.pulls]

    def _continue_install(self, replica: Replica, ready: Ready) -> None:
        install = self._install
        assert install is not None, "a node that is down installs nothing"
        if ready.offer is not None:
            install.offered(ready.offer)
            self._may_crash_installing()
        taken = [chunk for chunk in ready.chunks if install.received(chunk)]
        if taken or ready.offer is not None:
            self._pull(replica, install)
        else:
            self._repeat_pull()

    def _repeat_pull(self) -> None:
        """Pull again if the last pull has not been answered in time."""
        assert self._install is not None and self.replica is not None, "a node that is down installs nothing"
        if self._install.is_pulling and self._world.now_ms - self._pulled_ms >= PULL_MS:
            self._pull(self.replica, self._install)

    def _pull(self, replica: Replica, install: ModelInstall) -> None:
        pull = install.pull()
        if pull is not None and replica.leader is not None:
            self._pulled_ms = self._world.now_ms
            self._network.send(self.voter, replica.leader, pull)
            self._may_crash_installing()

    def _sync_files(self) -> None:
        def synced() -> None:
            assert self._install is not None, "a node that is down syncs nothing"
            self._install.files_synced()
            self._may_crash_installing()
            self.execute()

        duration_ms = 1 + int(self._world.random.expovariate(1 / self._world.knobs.sync_ms))
        self._world.after(duration_ms, self._guarded(synced))

    def _rows_synced(self, block: list[Row]) -> None:
        assert self._install is not None, "a node that is down installs nothing"
        for row in block:
            self._install.row_synced(row)
            if isinstance(row, Installed):
                self.installs += 1
                for index, term, payload in self.disk.state:
                    self._check.check_committed(self.voter, index, term, payload)
                self._may_crash_installing()

    def _may_crash_installing(self) -> None:
        world = self._world
        if not world.is_healed and world.random.random() < world.knobs.crash_in_install:
            world.after(0, self._guarded(self._crash_and_restart))
