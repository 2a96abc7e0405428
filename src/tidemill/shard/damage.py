"""Damage: finds the damaged segments of a shard and marks them in the journal, so that the replica can be repaired.

    suspect   A read has failed.  The segment is read again off the event loop, because the read may have raced with a
              change.  If the second read fails, too, the damage is marked.
    mark      The journal records the damage, the replica no longer counts towards majorities, and the leader offers it
              a snapshot (`docs/raft.md`, "A damaged replica, and how it is repaired").

If the other voters do not form a majority, they cannot repair the replica, and a mark would make the whole shard
unavailable.  In that case, the damage is not marked: reads of the damaged bytes fail, and all other data is served.
"""

from collections.abc import Callable
from typing import Final

from tidemill.batches.batch import spans
from tidemill.raft.quorum import has_majority
from tidemill.raft.replica import Replica
from tidemill.shard.jobs import Jobs
from tidemill.storage import paths
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.partition.partition_log import OffsetGone, PartitionLog
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.store import Store

READ_BYTES: Final = 1 << 20


class Damage:
    """Handles the damage of one shard.  Runs on the event loop; `jobs` executes reads that may wait for the disk."""

    def __init__(
        self,
        store: Store,
        log: ShardLog,
        replica: Replica,
        *,
        jobs: Jobs,
        high_watermarks: Callable[[], dict[int, int]],
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._log = log
        self._replica = replica
        self._jobs = jobs
        self._high_watermarks = high_watermarks
        self._changed = changed
        self._is_checking = False

    @property
    def is_repairable(self) -> bool:
        """Whether the other voters form a majority without this replica."""
        voters, me = self._replica.voters, self._replica.me
        return has_majority(voters, [voter for voter in voters if voter != me])

    @property
    def outlook(self) -> str:
        """A sentence that tells the operator what happens next and what to do."""
        if self.is_repairable:
            return "it is repaired once a majority of the other replicas is up and undamaged"
        return "the other replicas are no majority to repair it: stop the broker, restore the file, and start it"

    def mark_found(self) -> None:
        """Mark the damage that recovery has found.  Called before the shard is used."""
        if self.is_repairable:
            for number, offset in [*self._log.damaged_unmarked.items()]:
                self._store.mark_damage(self._log, number, offset, self._log.damage or "")

    def suspect(self, problem: SegmentDamaged) -> bool:
        """
        Read a segment again after a failed read, and mark the damage if it is confirmed.  Return False if the
        damage cannot be repaired.
        """
        if not self.is_repairable:
            return False
        segment = self._segment_of(problem)
        if segment is None or self._is_checking or self._replica.is_damaged:
            return True
        log, base_offset = segment
        end_offset = self._high_watermarks()[log.partition]
        self._is_checking = True

        def check() -> SegmentDamaged | None:
            try:
                _read_again(log, base_offset, end_offset)
            except SegmentDamaged as found:
                return found
            except OffsetGone:
                pass  # retention has deleted the segment
            return None

        def checked(found: SegmentDamaged | None) -> None:
            self._is_checking = False
            if found is not None and not self._replica.is_damaged:
                self.mark(found)

        def failed(error: BaseException) -> None:
            self._is_checking = False
            raise error

        self._jobs.submit(check, checked, failed)
        return True

    def mark(self, problem: SegmentDamaged) -> None:
        """Mark damage found by a read that cannot have raced with a change to the segment."""
        segment = self._segment_of(problem)
        if segment is not None and self.is_repairable:
            self._store.mark_damage(self._log, segment[0].partition, segment[1], str(problem))
            self._replica.mark_damaged()
            self._changed()

    def _segment_of(self, problem: SegmentDamaged) -> tuple[PartitionLog, int] | None:
        directory, _, name = problem.path.rpartition("/")
        base_offset = paths.segment_base(name)
        log = next((it for it in self._log.partitions.values() if it.directory == directory), None)
        return None if log is None or base_offset is None else (log, base_offset)


def _read_again(log: PartitionLog, base_offset: int, end_offset: int) -> None:
    """Read the committed part of a segment, which never changes.  Raises SegmentDamaged or OffsetGone."""
    behind = [segment.base_offset for segment in log.segments if segment.base_offset > base_offset]
    end_offset = min([end_offset, *behind])
    offset = max(base_offset, log.log_start)
    while offset < end_offset:
        found = log.read(offset, READ_BYTES, end_offset, may_wait=True)
        assert found is not None, "a read that may wait returns bytes"
        ends = [span.header.end_offset for data in found[0] for span in spans(data)]
        if not ends:
            return
        offset = ends[-1]
