"""A toy shard state machine: per partition, the sum of the values that commands carry.

    append      the value is pending, with its log index
    commit      the value moves from the pending values into the sum
    truncation  the pending values of truncated entries are dropped

Simulations register it in addition to the real state machines and run it inside the real storage code.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from struct import Struct, error
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from tidemill.batches.batch import BatchHeader
from tidemill.raft.entry import COMMAND, Entry
from tidemill.simulation.store.store_model import ModelEntry, ShardModel
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.machine.shard_machine import Interest, MachineType, ShardMachines
from tidemill.storage.partition.partition_log import PartitionLog

NUMBER: Final = 0xF000  # number of the machine, far above the assigned ones
ADD: Final = 250  # number of the command, far above the assigned ones
_COMMAND: Final = Struct(">BII")  # command, partition, value
_STATE: Final = Struct(">QII")  # sum, number of values in it, number of pending values
_PENDING: Final = Struct(">QI")  # log index, value
Observer = Callable[[PartitionLog, int, object], None]  # (partition, log index of a value, sum with this value)


class Summed(NamedTuple):
    """The state of a partition: the committed sum and count, and the pending values, which may still be truncated."""

    total: int
    count: int
    pending: tuple[tuple[int, int], ...]

    @property
    def with_pending(self) -> tuple[int, int]:
        """The sum and the count that result when all pending values are committed."""
        return self.total + sum(value for _, value in self.pending), self.count + len(self.pending)


class SummingMachine:
    """Sums the values of ADD commands.  `observer` is called for each committed value."""

    is_restored = True

    def __init__(self, observer: Observer, partitions: Mapping[int, PartitionLog]) -> None:
        self._observer = observer
        self._partitions = partitions
        self._totals: dict[int, tuple[int, int]] = {}
        self._pending: dict[int, deque[tuple[int, int]]] = {}

    def appended(self, entry: Entry, header: BatchHeader | None, commit_index: int) -> None:
        assert header is None, f"{entry} is a command"
        number, value = read_add(entry)
        self._pending.setdefault(number, deque()).append((entry.index, value))

    def committed(self, entry: Entry) -> None:
        number, value = read_add(entry)
        pending = self._pending[number].popleft()
        assert pending == (entry.index, value), f"{entry} commits, and {pending} was appended before it"
        total, count = self._totals.get(number, (0, 0))
        self._totals[number] = total + value, count + 1
        self._observer(self._partitions[number], entry.index, total + value)

    def truncated(self, from_index: int) -> None:
        for pending in self._pending.values():
            while pending and pending[-1][0] >= from_index:
                pending.pop()

    def forget_expired(self, commit_index: int, committed_append_time: int) -> None:
        pass

    def save(self, commit_index: int, last_index: int) -> dict[int, bytes]:
        saved = {}
        for number in self._partitions:
            total, count, pending = self.summed(number)
            kept = [it for it in pending if it[0] <= last_index]
            if count or kept:
                rows = b"".join(_PENDING.pack(*it) for it in kept)
                saved[number] = _STATE.pack(total, count, len(kept)) + rows
        return saved

    def load(self, saved: Mapping[int, Summed]) -> None:
        self._totals = {number: (total, count) for number, (total, count, _) in saved.items()}
        self._pending = {number: deque(pending) for number, (_, _, pending) in saved.items()}

    def summed(self, number: int) -> Summed:
        return Summed(*self._totals.get(number, (0, 0)), tuple(self._pending.get(number, ())))


def decode_sum(data: bytes) -> Summed:
    total, count, pending = _STATE.unpack_from(data)
    rows = data[_STATE.size :]
    if len(rows) != pending * _PENDING.size:
        raise error(f"{len(rows)} bytes are not {pending} pending values")
    return Summed(total, count, tuple(_PENDING.iter_unpack(rows)))


def summing(observer: Observer = lambda *_: None) -> MachineType:
    add = Interest(commands=frozenset((ADD,)))
    make = partial(SummingMachine, observer)
    return MachineType(number=NUMBER, version=1, make=make, decode=decode_sum, at_append=add, at_commit=add)


MACHINES: Final = default_machines(24 * 3_600_000, summing())


def add_command(partition: int, value: int, append_time: int) -> Entry:
    return Entry(COMMAND, _COMMAND.pack(ADD, partition, value), partition=partition, append_time=append_time)


def read_add(entry: Entry | ModelEntry) -> tuple[int, int]:
    """Return the partition and the value of an ADD command."""
    payload = entry.payload
    assert payload is not None, f"{entry} has lost its command"
    _, partition, value = _COMMAND.unpack(payload)
    return partition, value


def summed_of(log: ShardLog, number: int) -> Summed:
    machine = log.machines.by_number[NUMBER]
    assert isinstance(machine, SummingMachine)
    return machine.summed(number)


def differences_in_sums(shard: ShardModel, log: ShardLog) -> Iterator[str]:
    """Yield a sentence for each partition whose state differs from the sum of the model's entries."""
    for number in log.partitions:
        total = count = 0
        pending: list[tuple[int, int]] = []
        for entry in shard.entries:
            if entry.kind != COMMAND or entry.payload[0] != ADD:
                continue
            partition, value = read_add(entry)
            if partition != number:
                continue
            if entry.log_index <= log.commit_index:
                total, count = total + value, count + 1
            else:
                pending.append((entry.log_index, value))
        wanted = Summed(total, count, tuple(pending))
        if wanted != summed_of(log, number):
            yield f"partition {number}: the machine has {summed_of(log, number)}, the entries say {wanted}"


# Bugs planted in the production code.


@contextmanager
def machines_apply_at_append() -> Iterator[None]:
    """
    Plant a bug: state machines apply a command when it is appended instead of when it is committed, so a truncation
    does not undo it.
    """
    append, replay = ShardLog.append, ShardLog.replay

    def hasty(self: Any, entry: Any) -> None:
        append(self, entry)
        if entry.kind == COMMAND:
            self.machines.entry_committed(entry)

    def hasty_replay(self: Any, entry: Any, header: Any) -> None:
        replay(self, entry, header)
        if entry.kind == COMMAND:
            self.machines.entry_committed(entry)

    with (
        patch.object(ShardLog, "append", hasty),
        patch.object(ShardLog, "replay", hasty_replay),
        patch.object(ShardLog, "_entries_committed", lambda *_: None),
    ):
        yield


@contextmanager
def machines_keep_what_was_truncated() -> Iterator[None]:
    with patch.object(ShardMachines, "truncated", lambda *_: None):
        yield
