"""A data directory as its next start would find it, without changing it: for `tidemill log`.

A broker may be running in it.  Then a view is a moment old, and what looks wrong in it may only be newer: whoever
judges looks twice.
"""

from dataclasses import dataclass, field

from tidemill.model.shard import ShardId
from tidemill.storage import paths
from tidemill.storage.checkpoint.checkpoint import Checkpoint, newest_checkpoint
from tidemill.storage.checkpoint.recovery import JournalDamaged, RecoveryReport, Walked, open_ring, replay
from tidemill.storage.data_directory import DirectoryProblem, Identity, read_identity
from tidemill.storage.disk import Disk
from tidemill.storage.journal.journal import RingFile, newest_synced
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.producer_machine import default_machines
from tidemill.storage.partition.tail_cache import TailCache
from tidemill.storage.shard_machine import MachineRegistry
from tidemill.storage.store import StoreOptions


@dataclass(slots=True)
class DirectoryView:
    identity: Identity
    checkpoint: Checkpoint
    ring: list[RingFile]
    shards: dict[ShardId, ShardLog] = field(default_factory=dict)
    """Folded.  `segment.written` is what must lie in each file: the rest is in the journal as well."""
    walked: list[Walked] = field(default_factory=list)
    end_file: str = ""
    """Where the block after the last whole one would begin."""
    end_position: int = 0
    sequence: int = 0
    synced: int = 0
    """The newest block that was known to be synced: when it is newer than `sequence`, a block before it is damaged."""

    def close(self) -> None:
        for ring_file in self.ring:
            ring_file.file.close()
        for log in self.shards.values():
            log.close()


def view_directory(disk: Disk, machines: MachineRegistry | None = None) -> DirectoryView:
    """DirectoryProblem when it is nobody's; JournalDamaged when not even a start would know where to begin."""
    identity = read_identity(disk)
    if identity is None:
        raise DirectoryProblem(f"there is no {paths.IDENTITY}: this is no data directory")
    cache = TailCache(0)
    machines = machines or default_machines()
    checkpoint = newest_checkpoint(disk, cache, identity.journal_key, machines)
    if checkpoint is None:
        raise JournalDamaged("neither checkpoint-0 nor checkpoint-1 is whole")
    ring = open_ring(disk)
    store, walked, _ = replay(
        disk, identity.journal_key, StoreOptions(), cache, machines, checkpoint, ring, RecoveryReport()
    )
    head = store.journal.head
    return DirectoryView(
        identity,
        checkpoint,
        ring,
        store.shards,
        walked,
        paths.journal_file(head.number),
        head.position,
        store.journal.sequence,
        newest_synced(ring, identity.journal_key),
    )
