"""A simulated machine and its broker: a disk and a wall clock that outlive the processes running on the machine.

    start ─▶ open_directory ─▶ make ─▶ ticks, bring_up ─▶ register ─▶ listens ─▶ kill │ power loss │ stop ─▶ start

The steps are the same as in `broker/startup/wiring.py`, in the order of `app/start.py`.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

from tidemill.batches.batch import CRC_START
from tidemill.broker.broker import Broker
from tidemill.broker.coordinators.coordinator_registration import AnyRegistration
from tidemill.broker.startup import wiring
from tidemill.metadata.metadata_records import PEER_ENDPOINT, Endpoint, MetadataFormatError
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.entry import COMMAND
from tidemill.simulation.clients.kafka_listener import KAFKA_PORT, LISTENER, listen
from tidemill.simulation.machine.crash_fate import ALL_LOST, Fate
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.disk_operation import PowerLost
from tidemill.simulation.machine.event_loop import SimulatedLoop, Timeline, begin_loop
from tidemill.simulation.machine.links import PEER_PORT, links_on
from tidemill.simulation.machine.machine import DiskPace, WallClock, seconds, simulated_machine
from tidemill.simulation.machine.network import Network
from tidemill.storage import paths
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.disk import DiskFull, SyncFailed
from tidemill.storage.inspect.directory_view import view_directory
from tidemill.storage.journal.block import Block
from tidemill.storage.journal.journal_block import HEADER_BYTES
from tidemill.storage.journal.row import RowKind
from tidemill.storage.journal.shard_log import read_vote
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.machine.shard_machine import MachineType
from tidemill.storage.partition.segment import Segment, SegmentDamaged, walk
from tidemill.storage.store import Store, StoreOptions

TICK_S: Final = 0.25  # as in `app/start.py`
START_S: Final = 0.3  # the time from the start of a process until it reads its directory
STOP_S: Final = 10.0  # the process is killed if a clean stop takes longer
LINES_KEPT: Final = 200  # the number of event log lines that are kept
# The fraction of bit flips that hit the start of a batch, which the batch's CRC does not cover.
UNCOVERED_SHARE: Final = 0.5


class BrokerMachine:
    def __init__(
        self,
        broker_id: BrokerId,
        timeline: Timeline,
        network: Network,
        random: Random,
        *,
        options: StoreOptions,
        static: Mapping[str, str],
        clock_rate: float,
        join: tuple[str, ...],
        machine_types: tuple[MachineType, ...] = (),
        extra_coordinators: Sequence[AnyRegistration] = (),
    ) -> None:
        """
        The broker bootstraps a cluster or, if `join` is not empty, joins the cluster at these addresses.  Its clocks
        run faster or slower than virtual time by a fraction of up to `clock_rate`.  `machine_types` are shard
        state machines in addition to the built-in ones.
        """
        self.name = f"broker-{broker_id}"  # the host name
        self.disk = SimulatedDisk()
        self.wall = WallClock()
        self.pace = DiskPace()
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.loop: SimulatedLoop | None = None  # None while no process runs
        self.broker: Broker | None = None  # None until the directory is recovered, and while no process runs
        self.voter: ReplicaKey | None = None  # None until the directory has an identity
        self.rack: str | None = None  # as the broker registers at its next start
        self.starts = 0
        self.ticks = 0  # of all the processes
        self._rot: tuple[str, int, int] | None = None  # path, position and wrong value of the flipped byte
        self.rows: Counter[int] = Counter()  # the number of rows that the machine's journals have synced, by kind
        self.ends: Counter[str] = Counter()  # the number of processes that ended unexpectedly, by cause
        self._durable: dict[ShardId, dict[int, int]] = {}  # log index → term of the entries in the synced journal
        self._whole: dict[ShardId, int] = {}  # the index up to which entries are durable in segments
        # Former identities: each replica key, with the last values of `_durable` and `_whole` under that key.
        self._lost: list[tuple[ReplicaKey, dict[ShardId, dict[int, int]], dict[ShardId, int]]] = []
        self._emptied: set[ShardId] = set()  # closed, and no snapshot has been installed since
        # What replicas held that this identity has closed: shard, its last term, and its `_durable` and `_whole`.
        self._closed: list[tuple[ShardId, int, dict[int, int], int]] = []
        self.votes: dict[ShardId, tuple[int, ReplicaKey | None]] = {}  # term and vote of each shard, once synced
        self.after_turn: Callable[[BrokerMachine], None] = _do_nothing
        self._timeline = timeline
        self._network = network
        self._random = random
        self._options = options
        self._machines = default_machines(options.producer_expiration_ms, *machine_types)
        self._static = static
        self._clock_rate = clock_rate
        self._join = join
        self._broker_id = broker_id
        self._extra_coordinators = extra_coordinators
        self._fate_of_crash: Fate | None = None  # None: the process dies, but the machine keeps its power

    @property
    def is_running(self) -> bool:
        return self.loop is not None

    @property
    def is_ready(self) -> bool:
        return self.broker is not None and self.broker.is_ready

    @property
    def leads_others(self) -> bool:
        """Whether this broker leads a shard that also has other voters."""
        shards = () if self.broker is None else self.broker.shard_table.shards.values()
        return any(shard.replica.leads and len(shard.replica.voters) > 1 for shard in shards)

    # Starting the process.

    def start(self) -> None:
        assert self.loop is None, f"{self.name} already runs"
        self.starts += 1
        random = Random(self._random.getrandbits(64))
        rate = 1 + random.uniform(-1, 1) * self._clock_rate
        loop = begin_loop(self._timeline, rate=rate, boot_us=random.randrange(1 << 40))
        loop.failed = lambda error: self._failed(loop, error)
        loop.after_turn = lambda: self._after_turn(loop)
        self.loop = loop
        self._network.power_back(self.name)
        loop.after(seconds(START_S), lambda: loop.create_task(self._up(loop, random)).add_done_callback(_raise_error))

    async def _up(self, loop: SimulatedLoop, random: Random) -> None:
        def failed(error: BaseException) -> None:
            if not isinstance(error, (OSError, DirectoryProblem, MetadataFormatError)):
                raise error  # a bug, not a disk fault
            if loop is self.loop:  # otherwise the process has already ended, and the rest of the turn has no effect
                self.ends[type(error).__name__] += 1
                self._log(f"the broker ends: {error!r}")
                self.kill()

        machine = simulated_machine(
            loop,
            random,
            wall=self.wall,
            pace=self.pace,
            failed=failed,
            links=links_on(self._network, loop, self.name, random),
            tell=self._log,
            executed=self._note_synced,
        )
        try:
            identity, store, _ = await wiring.open_directory(
                self.disk, self._broker_id, self._join, machine, self._options, self._machines
            )
            self._note_recovered(store)
            self.voter = identity.voter
            broker = wiring.make(identity, store, self._static, machine, self._extra_coordinators)
        except (DiskFull, SyncFailed) as problem:
            failed(problem)
            return
        except (DirectoryProblem, SegmentDamaged, MetadataFormatError) as problem:
            if self.voter is not None:
                # This is a bug: only a broker that has lost its identity may be refused, and only while the cluster
                # still considers the former identity alive.
                raise
            failed(problem)
            return
        self.broker = broker
        self._tick(loop, broker)
        await wiring.bring_up(broker, addresses=self._join)
        endpoints = (
            Endpoint(LISTENER, self.name, KAFKA_PORT, "PLAINTEXT"),
            Endpoint(PEER_ENDPOINT, self.name, PEER_PORT, "PLAINTEXT"),
        )
        await wiring.register_broker(broker, endpoints, self.rack)
        listen(broker, self._network, loop, self.name, Random(random.getrandbits(64)))

    def _tick(self, loop: SimulatedLoop, broker: Broker) -> None:
        self.ticks += 1
        broker.tick()
        loop.call_later(TICK_S, self._tick, loop, broker)

    def _log(self, line: str) -> None:
        self.lines.append(line)

    def _after_turn(self, loop: SimulatedLoop) -> None:
        if loop is self.loop:
            self.after_turn(self)

    # Finding durable entries, which are known even while no process is running.

    def holders(self, shard_id: ShardId, index: int, term: int, leader_term: int) -> set[ReplicaKey]:
        """
        Return the current and former identities of this machine that hold the entry on disk, as a row or in an
        installed snapshot.  A former identity is included because it may have acknowledged the entry.  So may a replica
        that has been closed since, but only to a leader of a term that it had seen: `leader_term` is the term of the
        leader that counts.
        """
        known = [*self._lost]
        if self.voter is not None:
            known.append((self.voter, self._durable, self._whole))
            for closed_id, closed_term, durable, whole in self._closed:
                if closed_id == shard_id and leader_term <= closed_term:
                    known.append((self.voter, {shard_id: durable}, {shard_id: whole}))
        return {
            voter
            for voter, durable, whole in known
            if index <= whole.get(shard_id, 0) or durable.get(shard_id, {}).get(index) == term
        }

    def holds(self, shard_id: ShardId, index: int, term: int) -> bool:
        """Return whether the present replica of the shard holds the entry on disk."""
        return index <= self._whole.get(shard_id, 0) or self._durable.get(shard_id, {}).get(index) == term

    def _note_recovered(self, store: Store) -> None:
        self._whole = {shard_id: log.first_index - 1 for shard_id, log in store.shards.items()}
        self._durable = {
            shard_id: {index: log.term_at(index) for index in range(log.first_index, log.last_index + 1)}
            for shard_id, log in store.shards.items()
        }
        for shard_id in self._emptied:  # such a log only claims the last entry of the replica before it
            self._whole.pop(shard_id, None)
            self._durable.pop(shard_id, None)

    def _note_synced(self, block: object) -> None:
        """
        Record the rows of a block that the journal's thread has synced.  The loop has not received the result yet.
        """
        if not isinstance(block, Block):
            return  # the job was not the sync of a block but a write-back to segments
        for shard_id, row in block.rows:
            self.rows[row.kind] += 1
            entries = self._durable.setdefault(shard_id, {})
            if row.kind <= COMMAND:
                entries[row.index] = row.term
            elif row.kind == RowKind.INSTALLED:
                self._whole[shard_id] = row.index
                self._emptied.discard(shard_id)
                entries.clear()
            elif row.kind == RowKind.VOTE:
                self.votes[shard_id] = row.term, read_vote(row)
            elif row.kind == RowKind.CLOSED:
                closed_term = self.votes.get(shard_id, (0, None))[0]
                self._closed.append((shard_id, closed_term, entries, self._whole.pop(shard_id, 0)))
                self._durable[shard_id] = {}
                self._emptied.add(shard_id)
            elif row.kind == RowKind.TRUNCATE:
                for index in [index for index in entries if index >= row.index]:
                    del entries[index]

    # Stopping and crashing the process, and damaging the disk.

    def stop(self) -> None:
        """Stop cleanly, as `app/start.py` does: transfer leadership, and make all entries durable."""
        loop, broker = self.loop, self.broker
        if loop is not None and broker is not None:
            loop.after(0, lambda: loop.create_task(self._stop(loop, broker)).add_done_callback(_raise_error))

    async def _stop(self, loop: SimulatedLoop, broker: Broker) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(wiring.go_down(broker), STOP_S)
        self._log("stopped")
        self.kill()

    def move(self, host: str, join: tuple[str, ...]) -> None:
        """
        Give the machine another host name, while no process runs.  The next process is reached there, and knows the
        addresses in `join`.
        """
        assert self.loop is None, f"{self.name} runs"
        self.name = host
        self._join = join

    def wipe(self, join: tuple[str, ...]) -> None:
        """
        Replace the disk with an empty one.  At its next start, the broker joins the cluster at the addresses `join`,
        with the same broker id.
        """
        if self.loop is not None:
            self.lose_power(ALL_LOST)
        self.disk = SimulatedDisk()
        self._rot = None
        self._forget_identity(join)

    def _forget_identity(self, join: tuple[str, ...]) -> None:
        """
        Forget the identity, so that the next start creates another one.  Remember the entries that the former identity
        held, because it may have acknowledged them.
        """
        if self.voter is not None:
            self._lost.append((self.voter, self._durable, self._whole))
            self._lost += [(self.voter, {shard: kept}, {shard: whole}) for shard, _, kept, whole in self._closed]
        self._durable, self._whole, self.votes = {}, {}, {}
        self._emptied.clear()
        self._closed.clear()
        self.voter = None
        self._join = join

    def rot_journal(self, join: tuple[str, ...], random: Random) -> str | None:
        """
        Kill the process and flip a bit in a journal block that the next start must read and can recognize as synced.
        The broker then needs a new identity, and joins the cluster at the addresses `join`.

        Return the position of the flipped bit, or None if there is no such block.
        """
        if self.loop is not None:
            self.kill()
        if self.voter is None:
            return None
        view = view_directory(self.disk, self._machines)
        found = [
            (journal_position, header) for journal_position, header in view.walked if header.sequence <= view.synced
        ]
        size = sum(file.size for file in view.ring)
        view.close()
        if not found:
            return None
        journal_position, header = random.choice(found)
        at = journal_position.position + random.randrange(HEADER_BYTES + header.table_bytes + header.payload_bytes)
        path = paths.journal_file(journal_position.number)
        if at >= size // len(view.ring):
            return None  # this part of the block is in the next file
        self.disk.flip(path, at, 1 << random.randrange(8))
        self._forget_identity(join)
        return f"{path} at byte {at}"

    @property
    def is_rotten(self) -> bool:
        """Whether a byte of a segment is wrong, or was wrong and the replica has not been repaired yet."""
        if self._rot is None:
            return False
        path, position, wrong = self._rot
        if self.disk.exists(path):
            file = self.disk.open(path)
            is_wrong = file.read(position, 1) == bytes((wrong,))
            file.close()
            if is_wrong:
                return True
        if self.broker is None or any(it.replica.is_damaged for it in self.broker.shard_table.shards.values()):
            return True
        self._rot = None
        return False

    def rot(self, random: Random) -> str | None:
        """
        Flip a bit in a segment that other replicas can repair.  Return the bit's position, or None if there is no such
        segment.
        """
        if self.broker is None or self.is_rotten:
            return None
        found = [
            segment
            for shard in self.broker.shard_table.shards.values()
            if shard.damage.is_repairable
            for partition in shard.log.partitions.values()
            for segment in partition.segments
            if segment.written and self.disk.exists(segment.path)
        ]
        if not found:
            return None
        segment = random.choice(found)
        file = self.disk.open(segment.path)
        size = min(file.size(), segment.written)
        file.close()
        if not size:
            return None
        position = random.randrange(size)
        if random.random() < UNCOVERED_SHARE:
            position = self._batch_at(segment, position) + random.randrange(CRC_START)
        self.disk.flip(segment.path, position, 1 << random.randrange(8))
        file = self.disk.open(segment.path)
        self._rot = segment.path, position, file.read(position, 1)[0]
        file.close()
        return f"{segment.path} at byte {position}"

    def _batch_at(self, segment: Segment, position: int) -> int:
        """Return the start of the batch that contains the byte at `position`."""
        file = self.disk.open(segment.path)
        try:
            batches = walk(file, segment.path, 0, segment.written, segment.base_offset)
            return max(start for start, _, _ in batches if start <= position)
        finally:
            file.close()

    def kill(self) -> None:
        """Kill the process.  The machine keeps running, and its page cache survives."""
        loop = self._end_process()
        self._network.process_died(loop)
        self.disk = self.disk.after_kill()

    def lose_power(self, fate: Fate) -> None:
        """
        Lose power, with or without a running process.  `fate` decides which unsynced data survives.  No peer is
        notified.
        """
        if self.loop is not None:
            loop = self._end_process()
            self._network.power_lost(self.name, loop)
        self.disk = self.disk.after_power_loss(fate)

    def crash_within(self, operations: int, fate: Fate | None) -> None:
        """
        End the process after `operations` further disk operations, in the middle of a write or a recovery.  The machine
        loses power, and `fate` decides what its disk keeps; if `fate` is None, only the process dies.
        """
        self.disk.cut_before = self.disk.operations + 1 + operations
        self._fate_of_crash = fate

    def _end_process(self) -> SimulatedLoop:
        loop, self.loop, self.broker = self.loop, None, None
        assert loop is not None, f"{self.name} does not run"
        loop.kill()
        return loop

    def _failed(self, loop: SimulatedLoop, error: BaseException) -> None:
        """
        Handle an uncaught error: PowerLost ends the process as scheduled; any other error is a bug and ends the run.
        """
        if not isinstance(error, PowerLost):
            raise error
        if loop is self.loop:
            self._log("the process ends in the middle of an operation")
            self.ends[type(error).__name__] += 1
            if self._fate_of_crash is None:
                self.kill()
            else:
                self.lose_power(self._fate_of_crash)


def _raise_error(task: Any) -> None:
    """Raise the task's error, so that the loop ends the run."""
    if not task.cancelled() and task.exception() is not None:
        raise task.exception()


def _do_nothing(_: BrokerMachine) -> None:
    """Do nothing."""
