"""One shard's replicas on simulated time, network, disks and clocks, from one seed.

Pure cores alone: what `shard/shard.py` and the journal do around a replica is done here in a few lines, so that tens
of runs fit into a second.  Whole brokers are `simulation/cluster/cluster.py`'s.

    GroupRun(seed).run()      faults for a while, then everything heals, and all must agree; raises Broken
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft import quorum
from tidemill.raft.entry import BATCH, Entry
from tidemill.raft.message_codec import decode, encode
from tidemill.raft.messages import Message
from tidemill.raft.progress import Window
from tidemill.raft.ready import Ready, Vote
from tidemill.raft.replica import Replica
from tidemill.raft.voters import IllegalChange, Membership
from tidemill.simulation.shard.model_install import ModelCatchUp, ModelInstall
from tidemill.simulation.shard.model_log import Damage, Installed, InvariantViolation, ModelLog, Row, control_rows_first

TICK_MS: Final = 50
HEARTBEAT_MS: Final = 100
ALIVE_MS: Final = 500  # without a heartbeat for so long, a broker is not alive to another
CLIENT_MS: Final = 20
PULL_MS: Final = 500
STORM_EVENTS, STORM_EVENTS_PER_MS = 30_000, 10  # a hundred times what a group has to say
HEAL_MS: Final = 60_000  # within which a healed group must have agreed


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What one run draws: most runs have some of the faults, none has all of them."""

    nodes: int
    spare: int  # that may be made members
    duration_ms: int
    drop: float
    duplicate: float
    delay_ms: int
    tail: float  # of the messages, this share takes fifty times as long
    crash: float  # a second and node
    pause: float
    partition: float
    slow_sync: float
    crash_in_sync: float  # of those that hold a vote; and the node is back soon
    sync_ms: int
    change: float  # of the membership, a second
    transfer: float
    forget: float  # a second and node: committed entries leave memory, whoever still needs them
    clock_rate: float  # clocks run up to so much faster or slower
    window: Window
    crash_in_install: float  # at each of its steps
    damage: float = 0.0  # a second and node: a minority finds that it has lost what lay in files
    full_ring: float = 0.0  # a second and node: for a while its journal has room for votes alone

    @classmethod
    def draw(cls, random: Random) -> "Knobs":
        some = random.choice
        return cls(
            nodes=some((3, 3, 3, 5, 5, 7)),
            spare=some((0, 0, 1, 2)),
            duration_ms=some((10_000, 20_000, 40_000)),
            drop=some((0.0, 0.0, 0.02, 0.1, 0.3)),
            duplicate=some((0.0, 0.0, 0.05, 0.3)),
            delay_ms=some((1, 5, 20, 100)),
            tail=some((0.0, 0.05)),
            crash=some((0.0, 0.02, 0.1, 0.4)),
            pause=some((0.0, 0.05)),
            partition=some((0.0, 0.05, 0.2)),
            slow_sync=some((0.0, 0.05, 0.3)),
            crash_in_sync=some((0.0, 0.0, 0.1, 0.5)),
            sync_ms=some((1, 5, 50)),
            change=some((0.0, 0.3, 1.0)),
            transfer=some((0.0, 0.1, 0.5)),
            forget=some((0.0, 0.2, 0.7)),
            clock_rate=some((0.0, 0.3)),
            window=some(
                (
                    Window(),
                    Window(messages_max=1),
                    Window(entries_max=1),
                    Window(messages_max=2, entries_max=2),
                    Window(entries_max=8),
                )
            ),
            crash_in_install=some((0.0, 0.0, 0.05, 0.2)),
        )


class Node:
    """A broker, as far as one shard can tell."""

    def __init__(self, run: "ShardSimulation", voter: ReplicaKey, membership: Membership) -> None:
        self.run = run
        self.voter = voter
        self.disk = ModelLog(memberships=[(0, membership)])
        self.memory = self.disk.copy()
        self.replica: Replica | None = None
        self.paused_until = self.full_until = 0
        self.incarnation = 0
        self.rate = 1.0
        self.heard: dict[ReplicaKey, int] = {}
        self.alive: dict[ReplicaKey, bool] = {}
        self.queued: list[Row] = []
        self.is_syncing = False
        self.block: list[Row] = []
        self.waiting: deque[tuple[int, int, bytes]] = deque()  # proposed here: index, term, payload
        self.catch_up: ModelCatchUp | None = None
        self.install: ModelInstall | None = None
        self.pulled_ms = 0
        self.has_forgotten = False  # since the last turn: somebody may need an install now
        self.reads: list[tuple[int, int, int, int]] = []  # serial, term, commit index then, acknowledged by then
        self.had: list[ModelLog] = []  # what was on its disk before it was damaged: it may have answered for that

    @property
    def is_damaged(self) -> bool:
        return self.disk.is_damaged or self.memory.is_damaged

    # The machine.

    def start(self) -> None:
        self.incarnation += 1
        self.disk.copied = ()
        self.memory = self.disk.copy()
        self.queued, self.block, self.is_syncing = [], [], False
        self.full_until = 0
        self.waiting, self.reads = deque(), []
        self.heard, self.alive = {}, {}
        self.rate = 1 + self.run.random.uniform(-1, 1) * self.run.knobs.clock_rate
        self.replica = Replica(
            me=self.voter,
            memberships=list(self.memory.memberships),
            term=self.memory.vote.term,
            voted_for=self.memory.vote.voted_for,
            log=self.memory,
            commit_index=self.memory.commit_index,
            jitter_ms=lambda: self.run.random.randrange(20, 400),
            window=self.run.knobs.window,
            installing=self.memory.installing,
            is_damaged=self.memory.is_damaged,
        )
        self.catch_up = ModelCatchUp(self.replica, self.memory, lambda: self.run.random.randrange(1, 9))
        self.install = ModelInstall(self.replica, self.memory, self.disk, self._queue, self._sync_files)
        self.run.after(self.run.random.randrange(TICK_MS), self._guarded(self._tick))
        self.run.after(0, self._guarded(self._heartbeat))

    def crash(self) -> None:
        """A block in the air is there or not: its CRC says so."""
        if self.is_syncing and self.run.random.random() < 0.5:
            self._to_disk()
        self.replica = None
        self.incarnation += 1

    def _crash_for_a_moment(self) -> None:
        self.crash()
        incarnation = self.incarnation

        def again() -> None:
            if self.incarnation == incarnation:
                self.start()

        self.run.after(self.run.random.randrange(1, 400), again)

    def _guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        """Nothing of an earlier life happens; a paused node does it later."""
        incarnation = self.incarnation

        def guarded() -> None:
            if self.incarnation != incarnation:
                return
            if self.run.now_ms < self.paused_until:
                self.run.after(self.paused_until - self.run.now_ms, guarded)
                return
            call()

        return guarded

    def clock_ms(self) -> int:
        return int(self.run.now_ms * self.rate)

    # The broker around the replica.

    def _heartbeat(self) -> None:
        self.run.after(HEARTBEAT_MS, self._guarded(self._heartbeat))
        for other in self.run.nodes.values():
            if other is not self:
                self.run.send(self, other, None)

    def _tick(self) -> None:
        assert self.replica is not None, "a node that is down does not tick"
        self.run.after(TICK_MS, self._guarded(self._tick))
        now = self.clock_ms()
        self.alive = {voter: now - at < ALIVE_MS for voter, at in self.heard.items()}
        is_journal_full = self.run.now_ms < self.full_until and bool(self.queued)
        self.replica.tick(now, now, lambda voter: self.alive.get(voter, False), is_journal_full=is_journal_full)
        self.execute()

    def hear(self, sender: ReplicaKey, message: Message | None) -> None:
        if self.replica is None:
            return
        if message is None:
            now = self.clock_ms()
            was_alive = now - self.heard.get(sender, -ALIVE_MS) < ALIVE_MS
            self.heard[sender] = now
            if was_alive and not self.has_forgotten:
                self._ask_again()  # nothing else has changed since the last turn
                return
            if not was_alive:
                self.replica.peer_reconnected(sender)
        else:
            self.replica.receive(sender, message)
        self.execute()

    def execute(self) -> None:
        replica = self.replica
        assert replica is not None, "a node that is down carries nothing out"
        self.has_forgotten = False
        if replica.leads:
            self.run.check_leader(self, replica)
        if replica.has_ready:
            self._execute(replica, replica.ready())
        else:
            self._ask_again()
        self._sync()
        self._apply(replica)

    def _execute(self, replica: Replica, ready: Ready) -> None:
        if ready.vote is not None:
            self._queue(ready.vote)
        if ready.truncate_from is not None:
            self._queue(ready.truncate_from)
        for row in ready.entries:
            self._queue(row)
        for to, message in [*ready.messages, *self._catch_up(ready)]:
            self.run.send(self, self.run.nodes[to], message)
        self._resume_install(replica, ready)

    def _queue(self, row: Row) -> None:
        self.memory.put(row)
        self.queued.append(row)

    # Installs.

    def _catch_up(self, ready: Ready) -> list[tuple[ReplicaKey, Message]]:
        assert self.catch_up is not None, "a node that is down leads nobody"
        offers = [self.catch_up.offer(member) for member in ready.installs]
        return offers + [self.catch_up.answer(member, pull) for member, pull in ready.pulls]

    def _resume_install(self, replica: Replica, ready: Ready) -> None:
        install = self.install
        assert install is not None, "a node that is down installs nothing"
        if ready.offer is not None:
            install.offered(ready.offer)
            self._may_crash_installing()
        came = [chunk for chunk in ready.chunks if install.received(chunk)]
        if came or ready.offer is not None:
            self._pull(replica, install)
        else:
            self._ask_again()

    def _ask_again(self) -> None:
        """What a Pull asked for has not come."""
        assert self.install is not None and self.replica is not None, "a node that is down installs nothing"
        if self.install.pulls and self.run.now_ms - self.pulled_ms >= PULL_MS:
            self._pull(self.replica, self.install)

    def _pull(self, replica: Replica, install: ModelInstall) -> None:
        pull = install.pull()
        if pull is not None and replica.leader is not None:
            self.pulled_ms = self.run.now_ms
            self.run.send(self, self.run.nodes[replica.leader], pull)
            self._may_crash_installing()

    def _sync_files(self) -> None:
        def synced() -> None:
            assert self.install is not None, "a node that is down syncs nothing"
            self.install.files_synced()
            self._may_crash_installing()
            self.execute()

        self.run.after(1 + int(self.run.random.expovariate(1 / self.run.knobs.sync_ms)), self._guarded(synced))

    def _may_crash_installing(self) -> None:
        run = self.run
        if not run.is_healed and run.random.random() < run.knobs.crash_in_install:
            run.after(0, self._guarded(self._crash_for_a_moment))

    def _sync(self) -> None:
        if self.is_syncing or not self.queued:
            return
        is_full = self.run.now_ms < self.full_until
        block, waiting = control_rows_first(self.queued) if is_full else (self.queued, [])
        if not block:
            return  # until a tick finds room
        self.is_syncing = True
        self.block, self.queued = block, waiting
        entries = [row for row in self.block if isinstance(row, Entry) and self.memory.holds(row)]
        votes = [row for row in self.block if isinstance(row, Vote)]
        newest = (entries[-1].term, entries[-1].index) if entries else (0, 0)
        for row in self.block:
            if isinstance(row, Installed):
                newest = (row.term, row.index)
        run, knobs = self.run, self.run.knobs
        took = 1 + int(run.random.expovariate(1 / knobs.sync_ms))
        if run.is_healed:
            took = 1
        elif run.random.random() < knobs.slow_sync:
            took *= 50

        def synced() -> None:
            block = self.block
            self._to_disk()
            self.is_syncing = False
            assert self.replica is not None, "a node that is down syncs nothing"
            self.replica.advance(*newest, vote=votes[-1] if votes else None)
            self._installed(block)
            self.execute()

        run.after(took, self._guarded(synced))
        if votes and not run.is_healed and run.random.random() < knobs.crash_in_sync:
            run.after(run.random.randrange(took), self._guarded(self._crash_for_a_moment))

    def _installed(self, block: list[Row]) -> None:
        assert self.install is not None, "a node that is down installs nothing"
        for row in block:
            self.install.row_synced(row)
            if isinstance(row, Installed):
                self.run.installs += 1
                for index, term, payload in self.disk.state:
                    self.run.check_committed(self, index, term, payload)
                self._may_crash_installing()

    def _to_disk(self) -> None:
        before = self.disk.vote
        for row in self.block:
            if isinstance(row, Damage):
                self.had.append(self.disk.copy())
            self.disk.put(row)
        self.block = []
        self.run.check_votes(self, before, self.disk.vote)

    def find_damage(self, keep: int) -> None:
        """Only the first so many entries are left of what lay in files; not while the disk is about to change them."""
        assert self.replica is not None, "a node that is down finds nothing"
        self._queue(Damage(keep))
        self.replica.mark_damaged()
        self.execute()

    def _apply(self, replica: Replica) -> None:
        stable = replica.stable_index
        if stable > self.memory.commit_index:
            for index in range(max(self.memory.commit_index + 1, self.memory.first_index), stable + 1):
                entry = self.memory.entry_at(index)
                self.run.check_committed(self, index, entry.term, bytes(entry.payload or b""))
            self.memory.commit_index = stable
            self.disk.commit_index = min(stable, self.disk.last_index)
        if replica.leads:
            self.run.check_majority(self, replica)
            self.run.check_confirmed(self, replica)
        self._acknowledge(replica, stable)
        if self.reads and replica.leads:
            confirmed = replica.read_index_round
            self.reads = [read for read in self.reads if not self._read(read, replica, confirmed)]

    def _acknowledge(self, replica: Replica, stable: int) -> None:
        """To whom it proposed while it led; when it does not lead any more, the outcome of the rest is not known."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= stable and waiting[0][1] == replica.term:
            index, term, payload = waiting.popleft()
            self.run.acknowledged[index] = (term, payload)
        if waiting and not (replica.leads and waiting[0][1] == replica.term):
            waiting.clear()

    def _read(self, read: tuple[int, int, int, int], replica: Replica, confirmed: int) -> bool:
        serial, term, seen, acknowledged = read
        if term != replica.term:
            return True
        if confirmed < serial:
            return False
        if seen < acknowledged:
            raise InvariantViolation(f"{self.run.now_ms} ms: a confirmed read at {seen} misses entry {acknowledged}")
        return True

    def propose(self, payload: bytes) -> None:
        replica = self.replica
        if replica is None or not replica.may_propose:
            return
        index = replica.propose(Entry(BATCH, payload, append_time=self.clock_ms()))
        self.waiting.append((index, replica.term, payload))
        self.execute()

    def read(self) -> None:
        replica = self.replica
        if replica is not None and replica.is_confirmed:
            newest = max(self.run.acknowledged, default=0)
            self.reads.append((replica.request_read_index(), replica.term, replica.stable_index, newest))
            self.execute()


class ShardSimulation:
    def __init__(self, seed: int, knobs: Knobs | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.knobs = knobs or Knobs.draw(self.random)
        self.rot = Random(~seed)  # of its own: seeds that draw no damage stay what they were
        if knobs is None:
            damage, full_ring = (self.rot.choice((0.0, 0.0, 0.05, 0.2)) for _ in range(2))
            self.knobs = replace(self.knobs, damage=damage, full_ring=full_ring)
        self.now_ms = 0
        self.events = 0
        self.acknowledged: dict[int, tuple[int, bytes]] = {}
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.newest: dict[int, int] = {}  # committed entry of each term
        self.confirmed: set[int] = set()  # terms whose leader has been
        self.leaders: dict[int, ReplicaKey] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._blocked: set[tuple[ReplicaKey, ReplicaKey]] = set()
        self.installs = self.damages = 0
        self.is_healed = False
        self._proposed = 0
        count = self.knobs.nodes + self.knobs.spare
        voters = [ReplicaKey(BrokerId(number), DirectoryId(b"%016d" % number)) for number in range(1, count + 1)]
        membership = Membership(tuple(voters[: self.knobs.nodes]))
        self.nodes = {voter: Node(self, voter, membership) for voter in voters}

    # Time and messages.

    def after(self, delay_ms: int, call: Callable[[], None]) -> None:
        self.events += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self.events, call))

    def send(self, sender: Node, receiver: Node, message: Message | None) -> None:
        """As bytes: what one node does to an entry, no other sees.  None is a heartbeat."""
        chance, knobs = self.random.random, self.knobs
        if not self.is_healed and ((sender.voter, receiver.voter) in self._blocked or chance() < knobs.drop):
            return
        data = None if message is None else b"".join(encode(message))
        arrive = partial(self._deliver, sender.voter, receiver, data)
        if self.is_healed:
            self.after(1, arrive)
            return
        for _ in range(1 + (chance() < knobs.duplicate)):
            delay = 1 + int(self.random.expovariate(1 / knobs.delay_ms))
            if chance() < knobs.tail:
                delay *= 50
            self.after(delay, arrive)

    def _deliver(self, sender: ReplicaKey, receiver: Node, data: bytes | None) -> None:
        if self.now_ms < receiver.paused_until:
            self.after(receiver.paused_until - self.now_ms, partial(self._deliver, sender, receiver, data))
        elif receiver.replica is not None:
            receiver.hear(sender, None if data is None else decode(memoryview(data)))

    def run(self) -> None:
        for node in self.nodes.values():
            node.start()
        self.after(CLIENT_MS, self._client)
        self.after(1_000, self._faults)
        self._turn_until(self.knobs.duration_ms)
        self._heal()
        deadline = self.now_ms + HEAL_MS
        while not self._agrees():
            if self.now_ms >= deadline:
                raise InvariantViolation(f"seed {self.seed}: the healed group does not agree: {self._standing()}")
            self._turn_until(self.now_ms + 500)
        for index, found in self.acknowledged.items():
            if self.committed.get(index) != found:
                raise InvariantViolation(
                    f"seed {self.seed}: entry {index} was acknowledged as {found}, and is not there"
                )

    def _turn_until(self, end_ms: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _, call = heapq.heappop(heap)
            call()
            if self.events > STORM_EVENTS + STORM_EVENTS_PER_MS * self.now_ms:
                raise InvariantViolation(
                    f"seed {self.seed}: {self.events} events within {self.now_ms} ms: a storm of messages"
                )
        self.now_ms = end_ms

    # Who does what.

    def _client(self) -> None:
        self.after(CLIENT_MS * (10 if self.is_healed else 1), self._client)
        nodes = self.nodes.values()
        leading = [node for node in nodes if node.replica and node.replica.leads and self.now_ms >= node.paused_until]
        for node in leading:
            self._proposed += 1
            node.propose(b"%d" % self._proposed)
            if self._proposed % 5 == 0 or len(leading) > 1:  # one of them may not know that it was deposed
                node.read()

    def _faults(self) -> None:
        if self.is_healed:
            return
        self.after(1_000, self._faults)
        random, knobs = self.random, self.knobs
        for node in self.nodes.values():
            if node.replica is None:
                if random.random() < 0.5:
                    node.start()
            elif random.random() < knobs.crash * (3 if node.replica.leads else 1):
                node.crash()
            elif random.random() < knobs.pause:
                node.paused_until = self.now_ms + random.randrange(100, 5_000)
            elif random.random() < knobs.forget:
                self._forget(node)
            if knobs.damage and self.rot.random() < knobs.damage:
                self._damage(node)
            if knobs.full_ring and self.rot.random() < knobs.full_ring:
                node.full_until = self.now_ms + self.rot.choice((200, 1_000, 5_000, 20_000))
        if self._blocked and random.random() < 0.5:
            self._blocked.clear()
        elif random.random() < knobs.partition:
            self._cut()
        leader = next((node for node in self.nodes.values() if node.replica and node.replica.leads), None)
        if leader is not None and leader.replica is not None and self.now_ms >= leader.paused_until:
            if random.random() < knobs.transfer:
                leader.replica.transfer_leadership(random.choice(leader.replica.voters))
                leader.execute()
            if random.random() < knobs.change:
                self._change(leader, leader.replica)

    def _damage(self, node: Node) -> None:
        """Every membership that may be in force keeps a majority that is whole."""
        replica = node.replica
        is_serving = replica is not None and replica.installing is None and self.now_ms >= node.paused_until
        damaged = [it.voter for it in self.nodes.values() if it.is_damaged or it is node]
        logs = [log for it in self.nodes.values() for log in (it.memory, it.disk)]  # a crash forgets what was cut
        known = [membership for log in logs for _, membership in log.memberships]
        for membership in known:
            if not quorum.has_majority(membership.voters, [it for it in membership.voters if it not in damaged]):
                return
        if is_serving and not node.is_damaged:
            self.damages += 1
            node.find_damage(self.rot.randrange(len(node.memory.content) + 1))

    def _forget(self, node: Node) -> None:
        replica = node.replica
        if replica is None or replica.installing is not None or node.is_damaged:
            return
        below = min(replica.stable_index, node.disk.commit_index)
        node.memory.forget(below)
        node.disk.forget(below)
        node.has_forgotten = True

    def _cut(self) -> None:
        random = self.random
        voters = list(self.nodes)
        random.shuffle(voters)
        at = random.randrange(1, len(voters))
        leader = next((node.voter for node in self.nodes.values() if node.replica and node.replica.leads), None)
        if leader is not None and random.random() < 0.5:
            voters.remove(leader)
            voters.insert(0, leader)
            at = random.choice((1, 1, 2)) if len(voters) > 3 else 1
        kind = random.choice(("both ways", "one way", "one pair"))
        if kind == "one pair":
            self._blocked |= {(voters[0], voters[1])}
            return
        for left in voters[:at]:
            for right in voters[at:]:
                self._blocked.add((left, right))
                if kind == "both ways":
                    self._blocked.add((right, left))

    def _change(self, leader: Node, replica: Replica) -> None:
        """None while somebody is damaged: who plans them counts on the others."""
        if any(node.is_damaged for node in self.nodes.values()):
            return
        random = self.random
        now = replica.membership
        outside = [voter for voter in self.nodes if voter not in now.members]
        changes = []
        if outside:
            changes.append(Membership(now.voters, (*now.learners, random.choice(outside))))
        if now.learners:
            promoted = random.choice(now.learners)
            rest = tuple(learner for learner in now.learners if learner != promoted)
            changes.append(Membership((*now.voters, promoted), rest))
        if len(now.voters) > 1:
            removed = random.choice(now.voters)
            changes.append(Membership(tuple(voter for voter in now.voters if voter != removed), now.learners))
        if not changes:
            return
        try:
            replica.change_membership(random.choice(changes), leader.clock_ms())
        except IllegalChange:
            return
        leader.execute()

    # What must hold.

    def check_leader(self, node: Node, replica: Replica) -> None:
        first = self.leaders.setdefault(replica.term, node.voter)
        if first != node.voter:
            raise InvariantViolation(
                f"seed {self.seed}, {self.now_ms} ms: {first} and {node.voter} lead term {replica.term}"
            )

    def check_votes(self, node: Node, before: Vote, after: Vote) -> None:
        if after.term < before.term:
            raise InvariantViolation(
                f"seed {self.seed}: the term of {node.voter} went back from {before.term} to {after.term}"
            )
        if after.voted_for is not None:
            first = self.votes.setdefault((node.voter, after.term), after.voted_for)
            if first != after.voted_for:
                raise InvariantViolation(f"seed {self.seed}: {node.voter} voted twice in term {after.term}")

    def check_committed(self, node: Node, index: int, term: int, payload: bytes) -> None:
        found = (term, payload)
        first = self.committed.setdefault(index, found)
        self.newest[term] = max(self.newest.get(term, 0), index)
        if first != found:
            raise InvariantViolation(
                f"seed {self.seed}, {self.now_ms} ms: entry {index} was committed as {first}, "
                f"and {node.voter} commits {found}"
            )

    def check_majority(self, node: Node, replica: Replica) -> None:
        """What a leader holds for committed lies on the disks of a majority of the voters in force."""
        index = replica.commit_index
        if index < node.memory.first_index or index <= self._checked_majority:
            return
        self._checked_majority = index
        term = node.memory.term_at(index)
        disks = [[self.nodes[voter].disk, *self.nodes[voter].had] for voter in replica.voters]
        holding = sum(any(_holds(disk, index, term) for disk in held) for held in disks)
        if holding < len(replica.voters) // 2 + 1:
            raise InvariantViolation(
                f"seed {self.seed}, {self.now_ms} ms: entry {index} is committed and lies on {holding} "
                f"of {len(replica.voters)} disks"
            )

    _checked_majority = 0

    def check_confirmed(self, node: Node, replica: Replica) -> None:
        """Who answers for the log has all that was committed before its term, and may apply it."""
        if not replica.is_confirmed or replica.term in self.confirmed:
            return
        self.confirmed.add(replica.term)
        newest = max((index for term, index in self.newest.items() if term < replica.term), default=0)
        if replica.stable_index < newest:
            raise InvariantViolation(
                f"seed {self.seed}, {self.now_ms} ms: {node.voter} serves in term {replica.term} what it has up to "
                f"{replica.stable_index}, and entry {newest} was committed before"
            )

    def _heal(self) -> None:
        self.is_healed = True
        self._blocked.clear()
        for node in self.nodes.values():
            node.paused_until = node.full_until = 0
            if node.replica is None:
                node.start()

    def _agrees(self) -> bool:
        """Someone leads, all members have all that is acknowledged and proposed before now, and nothing differs."""
        leader = next((node for node in self.nodes.values() if node.replica and node.replica.is_confirmed), None)
        if leader is None or leader.replica is None:
            return False
        members = leader.replica.membership.members
        least = min(self._stable(voter) for voter in members)
        return least >= max(self.acknowledged, default=0) and least >= leader.replica.term_start_index

    def _stable(self, voter: ReplicaKey) -> int:
        replica = self.nodes[voter].replica
        return 0 if replica is None else replica.stable_index

    def _standing(self) -> list[str]:
        return [
            f"{node.voter.broker_id} {r.role} term {r.term} last {r.last_index} durable {r.durable_index} "
            f"commit {r.commit_index} follows {r.leader and r.leader.broker_id}"
            if (r := node.replica)
            else f"{node.voter.broker_id} down"
            for node in self.nodes.values()
        ]


def _holds(disk: ModelLog, index: int, term: int) -> bool:
    if index <= len(disk.state):
        return disk.state[index - 1][1] == term
    if disk.installing is not None or disk.is_damaged:
        return False
    return index <= disk.last_index and disk.term_at(index) == term
