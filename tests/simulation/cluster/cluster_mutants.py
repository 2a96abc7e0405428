"""Bugs planted in the brokers that ship; runs of a whole cluster must find them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tidemill.raft.entry import BATCH
from tidemill.shard.shard import Shard
from tidemill.simulation.history import Broken
from tidemill.storage import block, journal, store
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.partition_log import PartitionLog


@dataclass(frozen=True, slots=True)
class ClusterMutant:
    name: str
    planted: Callable[[], AbstractContextManager[None]]
    seeds_max: int
    found_as: tuple[type[Exception], ...] = (Broken,)
    brokers: int | None = 1  # None: as the seed draws


@contextmanager
def answers_before_its_sync() -> Iterator[None]:
    """A block is synced when the next one is written; its reports leave at once."""
    owed: list[Any] = []

    class Unsynced:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write_durably(self, position: int, parts: Any) -> None:
            self.file.write(position, parts)
            owed.append(self.file)

    write = journal.write_block

    def late(extents: Any, parts: Any) -> None:
        files, owed[:] = list(owed), []
        for file in files:
            file.sync()
        wrappers = {extent.file: Unsynced(extent.file) for extent in extents}
        write([extent._replace(file=wrappers[extent.file]) for extent in extents], parts)

    with patch.object(block, "write_block", late):
        yield


@contextmanager
def checkpoints_before_segments_are_synced() -> Iterator[None]:
    with patch.object(store, "sync_segment", lambda segment: None):
        yield


@contextmanager
def forgets_producers_in_recovery() -> Iterator[None]:
    note = PartitionLog.note_producer

    def forgetful(self: Any, header: Any, entry: Any, committed_index: int) -> None:
        if entry.header is not None:  # one that was appended here, by this process
            note(self, header, entry, committed_index)

    with patch.object(PartitionLog, "note_producer", forgetful):
        yield


@contextmanager
def serves_what_is_not_committed() -> Iterator[None]:
    propose = Shard.propose

    def eager(self: Any, entry: Any) -> int:
        index = propose(self, entry)
        if entry.kind == BATCH:
            self.partitions[entry.partition].high_watermark = entry.base_offset + entry.record_count
            self.partitions[entry.partition].notify()
        return index

    with patch.object(Shard, "propose", eager):
        yield


MUTANTS = (
    ClusterMutant("answers before its sync", answers_before_its_sync, 40),
    ClusterMutant(
        "checkpoints before segments are synced",
        checkpoints_before_segments_are_synced,
        40,
        (Broken, DirectoryProblem),
    ),
    ClusterMutant("forgets producers in recovery", forgets_producers_in_recovery, 40),
    ClusterMutant("serves what is not committed", serves_what_is_not_committed, 40),
)
