"""Explores every crash point of a scripted run: opens each disk that a crash may leave, checks it, and continues on it.

The run itself is never interrupted.  Before each of its operations the explorer derives all disks that a crash could
leave, and opens each one that it has not seen before.  Recovery must reach exactly one of the states between the newest
acknowledged and the newest gathered block.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation.share_rows import differences_in_shares
from tests.simulation.store.store_script import CONFIG, KEY, ME, OPTIONS, StoreScript
from tests.simulation.summing_machine import MACHINES, add_command, differences_in_sums
from tidemill.batches.batch import read_header, spans
from tidemill.batches.builder import build_batch
from tidemill.raft.entry import BATCH, Entry
from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST, Fate
from tidemill.simulation.machine.crash_points import UNIFORM, lone_fates, mixed_fates
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.disk_operation import Kind, Operation
from tidemill.simulation.store.store_check import differences
from tidemill.simulation.store.store_driver import StoreDriver
from tidemill.simulation.store.store_model import StoreHistory, StoreModel
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.recovery import RecoveryReport, initialize_directory, open_store
from tidemill.storage.store import Store

NEIGHBOURS = 10  # crash points per group; many disks of a group are equal, and each is opened once
SYNCS = (Kind.SYNC, Kind.SYNC_DIRECTORY)


class Violation(AssertionError):
    """The store broke a promise.  `kind` is "lost", "invented", "refused" or "different"."""

    def __init__(self, kind: str, where: str, what: str) -> None:
        super().__init__(f"{kind}: {where}: {what}")
        self.kind = kind


class Enough(Exception):
    """Raised when the budget of opened disks is used up."""


@dataclass(slots=True)
class Explorer:
    every_tear: bool = False
    resume_every: int = 40  # n: the script continues on every n-th opened disk
    states_max: int | None = None
    # At each crash point, try only every n-th of the fates that `lone_fates` and `mixed_fates` yield.  Try crashes
    # during recovery only at every n-th crash point.
    thinned: int = 40
    first: int = 1  # the first crash point to examine
    # (i, n): of each n groups of neighbouring crash points, examine only the i-th, so that n processes can share them.
    share: tuple[int, int] = (0, 1)
    operations: int = 0
    visits: int = 0  # the number of disks derived
    states: int = 0  # the number of disks opened
    laps: int = 0
    checkpoints: int = 0
    blocks: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # how often the script took each action
    _seen: dict[bytes, int] = field(default_factory=dict)
    _history: StoreHistory = field(default_factory=lambda: StoreHistory(StoreModel(), 0))

    def run(self, seed: int = 1, rounds: int = 25) -> None:
        disk = SimulatedDisk()
        initialize_directory(disk, KEY, OPTIONS)
        store, _ = open_store(disk, KEY, OPTIONS, MACHINES)
        history = self._history = StoreHistory(StoreModel(), 0)
        driver = StoreDriver(store, disk, history, CONFIG)
        script = StoreScript(driver, disk, seed)
        before = disk.operations
        disk.before_operation = lambda operation: self._visit(disk, operation)
        script.run(rounds)
        disk.before_operation = None
        self.operations += disk.operations - before
        self.laps += store.journal.laps
        self.checkpoints += driver.checkpoints
        self.blocks += history.gathered
        self.counts += _segment_counts(disk.log)
        self.counts["truncations"] += script.truncations
        self.counts["pairs"] += driver.pairs
        store.cache.evict()
        assert store.cache.bytes <= OPTIONS.cache_bytes_max, "the tail cache has outgrown its bound"

    # Methods that examine one crash point.

    def _visit(self, disk: SimulatedDisk, operation: Operation) -> None:
        index, count = self.share
        if operation.number < self.first or operation.number // NEIGHBOURS % count != index:
            return
        salt = operation.number
        cut = salt % self.thinned == 0
        for fate in UNIFORM:
            self._power_loss(disk, fate, f"before {operation}, {fate}", cut=cut)
        several = [*lone_fates(disk, salt=salt // self.thinned, every_tear=self.every_tear), *mixed_fates(salt=salt)]
        for fate in several[-salt % self.thinned :: self.thinned]:
            self._power_loss(disk, fate, f"before {operation}, {fate}")
        is_checkpoint = operation.path.startswith("checkpoint")
        self._kill(disk.after_kill(), f"before {operation}, killed", cut=cut, fill=is_checkpoint)
        if operation.kind is Kind.SYNC:
            failed = f"{operation} fails"
            self._kill(disk.after_failed_sync(operation), failed, resume=True)
            forgotten = disk.after_failed_sync(operation)
            forgotten.evict()
            self._kill(forgotten, f"{failed}, and the cache is dropped")
            if is_checkpoint:
                self._kill(disk.after_failed_sync(operation), failed, fill=True)

    def _power_loss(self, disk: SimulatedDisk, fate: Fate, where: str, *, cut: bool = False) -> int:
        return self._examine(disk.after_power_loss(fate), where, cut=cut)

    def _examine(self, disk: SimulatedDisk, where: str, *, cut: bool = False, least: int = 0) -> int:
        """
        Open a disk, and return the sequence of the newest block that recovery finds.  Raise `Violation` if it is lower
        than `least` or than the newest acknowledged block's.
        """
        self.visits += 1
        disk.free_bytes = None
        digest = disk.digest()
        sequence = self._seen.get(digest)
        if sequence is None:
            self._count()
            resume = self.states % self.resume_every == 0
            store, sequence = self._open(disk, where, cut=cut)
            self._seen[digest] = sequence
            self._examine(disk.after_power_loss(ALL_LOST), f"{where}; opened, all lost", least=sequence)
            if resume:
                self._resume(disk, store, sequence, where)
        self._judge(sequence, max(least, self._history.acknowledged), where)
        return sequence

    def _count(self) -> None:
        if self.states_max is not None and self.states >= self.states_max:
            raise Enough
        self.states += 1

    def _kill(
        self, disk: SimulatedDisk, where: str, *, cut: bool = False, resume: bool = False, fill: bool = False
    ) -> None:
        """Examine a disk after a kill, with its page cache intact.  Then let it lose power: recovery must have made
        durable what it reported.
        """
        self.visits += 1
        self._count()
        disk.free_bytes = None
        store, sequence = self._open(disk, where, cut=cut)
        self._judge(sequence, self._history.acknowledged, where)
        self._examine(disk.after_power_loss(ALL_LOST), f"{where}; opened, all lost", least=sequence)
        if fill:
            self._resume(disk, store, sequence, f"{where}, filled", fill=True)
        elif resume or self.states % self.resume_every == 0:
            self._resume(disk, store, sequence, where)

    def _judge(self, sequence: int, least: int, where: str) -> None:
        if sequence < least:
            raise Violation("lost", where, f"block {least} was acknowledged, but the store ends at block {sequence}")
        if sequence > self._history.gathered:
            raise Violation(
                "invented", where, f"block {sequence} is there, but only {self._history.gathered} were made"
            )

    def _open(self, disk: SimulatedDisk, where: str, *, cut: bool = False) -> tuple[Store, int]:
        if cut:
            disk.before_operation = self._recovery_cuts(disk, where)
        try:
            store, found = open_store(disk, KEY, OPTIONS, MACHINES)
        except (Violation, Enough):
            raise
        except Exception as problem:
            raise Violation("refused", where, f"{type(problem).__name__}: {problem}") from problem
        finally:
            disk.before_operation = None
        self._compare(store, found, disk, self._history, where)
        return store, store.journal.sequence

    def _compare(
        self, store: Store, found: RecoveryReport, disk: SimulatedDisk, history: StoreHistory, where: str
    ) -> None:
        if found.damaged:
            raise Violation("refused", where, f"damage is reported: {found.damaged}")
        model = model_of(store, history)
        if model is None:
            raise Violation("invented", where, f"block {store.journal.sequence} is there, but was never made")
        for difference in differences(model, store, disk):
            raise Violation("different", where, difference)
        for shard_id, shard in model.shards.items():
            log = store.shards[shard_id]
            for difference in (*differences_in_sums(shard, log), *differences_in_shares(shard, log)):
                raise Violation("different", where, f"shard {shard_id}: {difference}")

    def _recovery_cuts(self, disk: SimulatedDisk, where: str) -> Callable[[Operation], None]:
        """
        Return a hook that examines the disk before each operation of a recovery: with all unsynced data kept, all lost,
        or both, depending on which outcomes the previous operation has changed.
        """
        last: list[Kind] = []

        def cut(operation: Operation) -> None:
            fates = UNIFORM if not last else (ALL_LOST,) if last[0] in SYNCS else (ALL_KEPT,)
            last[:] = [operation.kind]
            for fate in fates:
                self._power_loss(disk, fate, f"{where}; then before {operation} of recovery, {fate}")

        return cut

    # Methods that continue on an opened disk.

    def _resume(self, disk: SimulatedDisk, store: Store, sequence: int, where: str, *, fill: bool = False) -> None:
        """
        Write votes, entries, a checkpoint and more entries, then lose or keep everything unsynced, and open the disk
        again.

        With `fill`, write as much as fits into the ring without another checkpoint.
        """
        model = model_of(store, self._history)
        assert model is not None, f"block {sequence} was made"
        history = StoreHistory(model, sequence)
        driver = StoreDriver(store, disk, history, CONFIG)
        try:
            if fill:
                self._fill(driver)
            else:
                self._work(driver)
                if store.can_checkpoint:
                    store.begin_checkpoint()
                driver.drain()
                self._work(driver)
                driver.drain()
                driver.block(empty=True)
                self._read(store, history.models[history.gathered])
        except Exception as problem:
            raise Violation("refused", f"{where}; continued", f"{type(problem).__name__}: {problem}") from problem
        for fate in UNIFORM:
            after = disk.after_power_loss(fate)
            where_now = f"{where}; continued, {fate}"
            try:
                opened, found = open_store(after, KEY, OPTIONS, MACHINES)
            except Exception as problem:
                raise Violation("refused", where_now, f"{type(problem).__name__}: {problem}") from problem
            if opened.journal.sequence < history.acknowledged:
                raise Violation("lost", where_now, f"the store ends at block {opened.journal.sequence}")
            self._compare(opened, found, after, history, where_now)

    def _work(self, driver: StoreDriver) -> None:
        for shard_id, log in list(driver.store.shards.items()):
            driver.vote(shard_id, log.term + 1, ME)
            if log.installing is not None:
                continue  # a replica that came back takes only a snapshot
            for partition in log.partitions.values():
                payload = build_batch(
                    [(None, b"after the crash", (), 9_000)], base_offset=partition.end_offset, leader_epoch=log.term
                )
                entry = Entry(
                    BATCH,
                    payload,
                    partition=partition.partition,
                    base_offset=partition.end_offset,
                    record_count=1,
                    append_time=9_000,
                    index=log.last_index + 1,
                    term=log.term,
                )
                driver.append(shard_id, [entry])
                added = add_command(partition.partition, 7, 9_000)
                added.index, added.term = log.last_index + 1, log.term
                driver.append(shard_id, [added])

    def _fill(self, driver: StoreDriver) -> None:
        driver.runs_background = False
        shard_id = min(driver.store.shards, default=None)
        while shard_id is not None:
            driver.vote(shard_id, driver.store.shards[shard_id].term + 1, ME)
            if not driver.block():
                return

    def _read(self, store: Store, model: StoreModel) -> None:
        """Read every partition from the log start to the end, as a consumer would."""
        for shard_id, log in store.shards.items():
            for number, partition in log.partitions.items():
                wanted = model.shards[shard_id].partition(number)
                offset = partition.log_start
                start = len(wanted.data)
                if offset < wanted.end_offset:
                    start = max(at for base, at in wanted.positions.items() if base <= offset)
                if wanted.data[start:] != b"".join(_batches(partition, offset)):
                    raise AssertionError(f"partition {number} of shard {shard_id} reads other bytes from {offset} on")


def model_of(store: Store, history: StoreHistory) -> StoreModel | None:
    """
    Return the expected state of a store that has just been opened, or None if it has a block that was never written.
    """
    logs = store.shards
    trimmed = {(shard_id, it.partition): it.trimmed for shard_id, log in logs.items() for it in log.partitions.values()}
    return history.model_at(store.journal.sequence, {id: log.last_index for id, log in logs.items()}, trimmed)


def _batches(partition: PartitionLog, offset: int) -> Iterator[bytes]:
    while offset < partition.end_offset:
        found = partition.read(offset, 4_000, partition.end_offset, may_wait=True)
        assert found is not None and found[1], f"nothing is read at offset {offset}"
        data = b"".join(found[0])
        yield data
        offset = max(read_header(data, span.position).end_offset for span in spans(data))


def _segment_counts(log: Sequence[Operation]) -> Counter[str]:
    """Count, from the disk operations, rolled segments, removed segments and deleted partitions."""
    of_segments = [operation for operation in log if operation.path.endswith(".log")]
    made = Counter(it.path.rpartition("/")[0] for it in of_segments if it.kind is Kind.CREATE)
    return Counter(
        rolls=sum(made.values()) - len(made),
        segments_removed=sum(it.kind is Kind.REMOVE for it in of_segments),
        partitions_deleted=sum(it.kind is Kind.REMOVE_DIRECTORY for it in log),
    )
