"""Shard state machines: state that a replica derives from the entries of its shard's log.

A machine type is registered once per broker (`MachineRegistry`); every open shard has one instance of each type
(`ShardMachines`).  The log changes an instance on three events:

    append      an entry was added to the log; a truncation can still undo the change
    commit      an entry is committed and durable on this replica; the change is final
    truncation  entries were removed; the machine undoes the changes that they caused at append, and nothing else

The machine's state is saved as one section of the shard (`storage/machine/machine_sections.py`) in checkpoints,
snapshot offers and INSTALLED rows.  A section is the state as of the last entry that the checkpoint or snapshot covers.
State that changes at commit is saved as of the commit index.  State that changes at append carries the log index of its
entry, because a truncation or a commit may follow.  After a start, later entries reach the machine through the same
calls.  Independently of these events, a machine may forget state that has expired.  `docs/ARCHITECTURE.md` lists which
state changes on which event.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from tidemill.batches.batch import BatchHeader
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.partition.partition_log import PartitionLog


class MachineNumber(IntEnum):
    """Assigned machine numbers.  Leader epochs are part of the partition's state and have no section."""

    LEADER_EPOCHS = 1
    PRODUCER_STATES = 2
    SHARE_PARTITIONS = 3
    TIMERS = 4
    TRANSACTIONS = 5
    OBJECT_MANIFEST = 6
    KEY_INDEX = 7


class Batches(IntEnum):
    """The kinds of record batches that are passed to a machine."""

    NONE = 0
    OF_PRODUCERS = 1  # only batches with a producer id
    ALL = 2


class Interest(NamedTuple):
    """The entries that are passed to a machine.  No method is called for an entry that no machine is interested in."""

    batches: Batches = Batches.NONE
    commands: frozenset[int] = frozenset()  # the commands to pass to the machine, each identified by its first byte


NOTHING: Final = Interest()


class ShardStateMachine(Protocol):
    """One machine's state for one shard."""

    def appended(self, entry: Entry, header: BatchHeader | None, commit_index: int) -> None:
        """
        Record that `entry` was added to the log; its payload is present.  `header` is the header of a batch, and None
        for a command.  Entries up to `commit_index` will never be truncated.
        """
        ...

    def committed(self, entry: Entry) -> None:
        """
        Record that `entry` is committed; every entry before it has already been reported.  The payload of a command is
        present.  The bytes of a batch may have left memory, so a machine that needs them must keep them when the batch
        is appended.
        """
        ...

    def truncated(self, from_index: int) -> None:
        """Record that the entries from `from_index` on were removed; none of them was committed."""
        ...

    @property
    def is_restored(self) -> bool:
        """Whether the state is complete: after a start or an install, a job may have to read a part of it."""
        ...

    def forget_expired(self, commit_index: int, committed_append_time: int) -> None:
        """
        Drop state that has expired by append time (ms).  Called before a checkpoint.  Only committed entries may decide
        what expires: an entry that can still be truncated would make replicas differ.
        """
        ...

    def save(self, commit_index: int, last_index: int) -> Mapping[int, bytes]:
        """
        Return the section, as bytes by partition: the state without the changes made by entries after `last_index`.
        Partitions without state are omitted.  `commit_index` is the last index that was reported as committed.
        """
        ...

    def load(self, saved: Mapping[int, Any]) -> None:
        """Replace the state with a section, decoded by `MachineType.decode` for each partition that has state."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """
    A kind of machine: the number and version of its section, its factory, and the entries that are passed to it.
    `decode` returns the state of a partition for `ShardStateMachine.load`, or raises struct.error.  It may run on any
    thread.  A shard has the machine only if `is_for` says so of its logs.
    """

    number: int
    version: int  # the version of the machine's section
    make: Callable[[Mapping[int, PartitionLog]], ShardStateMachine]
    decode: Callable[[bytes], Any]
    at_append: Interest = NOTHING
    at_commit: Interest = NOTHING
    is_for: Callable[[Mapping[int, PartitionLog]], bool] = lambda partitions: True  # which shards have this machine


class UnknownCommand(DirectoryProblem):
    """A shard's log contains a command that this version of the program does not know."""


class MachineRegistry:
    """The machine types of a broker, by number.  `commands` holds every command that this broker can apply."""

    def __init__(self, types: Iterable[MachineType]) -> None:
        self.types: dict[int, MachineType] = {}
        self.commands = {int(command) for command in Command}
        for it in types:
            assert it.number not in self.types, f"machine number {it.number} is registered twice"
            assert it.at_commit.batches != Batches.OF_PRODUCERS, "the producer of a batch is not known at commit"
            self.types[it.number] = it
            self.commands |= it.at_append.commands | it.at_commit.commands

    def check_command(self, shard_id: ShardId, entry: Entry) -> None:
        """
        Raise UnknownCommand if no machine is registered for the command in `entry`.  A replica that skipped the command
        would diverge from the others.
        """
        if entry.payload and entry.payload[0] not in self.commands:
            raise UnknownCommand(
                f"entry {entry.index} of shard {shard_id} is command {entry.payload[0]}, which this program does not "
                "know: a newer version wrote it; run that version or a later one"
            )

    def make(self, partitions: Mapping[int, PartitionLog]) -> "ShardMachines":
        """Make the machines of one shard."""
        return ShardMachines(self, partitions)


_Appended = Callable[[Entry, BatchHeader | None, int], None]
_Committed = Callable[[Entry], None]
T = TypeVar("T")


class ShardMachines:
    """
    The machines of one shard, and for each kind of entry the methods to call.  At append, `ShardLog` itself calls the
    methods in `batch_appended` for a batch without a producer id, in `producer_batch_appended` for a batch with one,
    and in `command_appended` for a command.
    """

    __slots__ = (
        "_batch_committed",
        "_command_committed",
        "batch_appended",
        "by_number",
        "command_appended",
        "has_batch_commit_listeners",
        "has_commit_listeners",
        "partitions",
        "producer_batch_appended",
        "registry",
    )

    def __init__(self, registry: MachineRegistry, partitions: Mapping[int, PartitionLog]) -> None:
        self.registry = registry
        self.partitions = partitions
        types = {number: it for number, it in registry.types.items() if it.is_for(partitions)}
        self.by_number = by_number = {number: it.make(partitions) for number, it in types.items()}
        appended = [(it.at_append, by_number[number].appended) for number, it in types.items()]
        committed = [(it.at_commit, by_number[number].committed) for number, it in types.items()]
        self.batch_appended: tuple[_Appended, ...] = _of_batches(appended, Batches.ALL)
        self.producer_batch_appended: tuple[_Appended, ...] = _of_batches(appended, Batches.OF_PRODUCERS)
        self.command_appended: dict[int, tuple[_Appended, ...]] = _of_commands(appended)
        self._batch_committed: tuple[_Committed, ...] = _of_batches(committed, Batches.ALL)
        self._command_committed: dict[int, tuple[_Committed, ...]] = _of_commands(committed)
        self.has_batch_commit_listeners = bool(self._batch_committed)
        self.has_commit_listeners = bool(self._batch_committed or self._command_committed)

    def entry_committed(self, entry: Entry) -> None:
        """
        Report a committed entry to the machines that are interested in it.  Called in log order, and only if
        `has_commit_listeners`; for batches only if `has_batch_commit_listeners`.
        """
        if entry.kind == BATCH:
            for listener in self._batch_committed:
                listener(entry)
        elif entry.kind == COMMAND and entry.payload:
            for listener in self._command_committed.get(int(entry.payload[0]), ()):
                listener(entry)

    @property
    def are_restored(self) -> bool:
        return all(machine.is_restored for machine in self.by_number.values())

    def truncated(self, from_index: int) -> None:
        for machine in self.by_number.values():
            machine.truncated(from_index)

    def forget_expired(self, commit_index: int, committed_append_time: int) -> None:
        for machine in self.by_number.values():
            machine.forget_expired(commit_index, committed_append_time)


def _of_batches(listeners: Sequence[tuple[Interest, T]], wanted: Batches) -> tuple[T, ...]:
    """
    Return the listeners whose interest in batches is at least `wanted`.  A listener for all batches is thus also a
    listener for batches with a producer id.
    """
    return tuple(listener for interest, listener in listeners if interest.batches >= wanted)


def _of_commands(listeners: Sequence[tuple[Interest, T]]) -> dict[int, tuple[T, ...]]:
    commands = sorted({command for interest, _ in listeners for command in interest.commands})
    return {
        command: tuple(listener for interest, listener in listeners if command in interest.commands)
        for command in commands
    }
