"""A read-only view of a data directory as the next start would find it, for `tidemill log`.

A broker may be running in the directory.  In that case, the view may be outdated, and bytes that look damaged may
merely be newer than the view, so a caller must check apparent damage again in a newer view.
"""

from dataclasses import dataclass, field

from tidemill.model.shard import ShardId
from tidemill.storage import paths
from tidemill.storage.checkpoint.checkpoint import Checkpoint, newest_checkpoint
from tidemill.storage.data_directory import DirectoryProblem, Identity, read_identity
from tidemill.storage.disk import Disk
from tidemill.storage.journal.journal import RingFile, newest_synced
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.machine.shard_machine import MachineRegistry
from tidemill.storage.partition.tail_cache import TailCache
from tidemill.storage.recovery import JournalDamaged, RecoveryReport, Walked, open_ring, replay
from tidemill.storage.store import StoreOptions


@dataclass(slots=True)
class DirectoryView:
    identity: Identity
    checkpoint: Checkpoint
    ring: list[RingFile]
    shards: dict[ShardId, ShardLog] = field(default_factory=dict)
    """
    The shards after replay.  Each segment's file must contain `segment.written` bytes; the journal contains all later
    bytes.
    """
    walked: list[Walked] = field(default_factory=list)
    end_file: str = ""
    """The journal file in which the block after the last complete one would begin."""
    end_position: int = 0
    sequence: int = 0
    synced: int = 0
    """The newest block known to be synced.  If it is newer than `sequence`, an earlier block is damaged."""

    def close(self) -> None:
        for ring_file in self.ring:
            ring_file.file.close()
        for log in self.shards.values():
            log.close()


def view_directory(disk: Disk, machines: MachineRegistry | None = None) -> DirectoryView:
    """
    Replay the checkpoint and the journal.  Raises DirectoryProblem if the directory has no identity, and JournalDamaged
    if it has no complete checkpoint.
    """
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
