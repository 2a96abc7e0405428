"""Damage of a shard's files: from a read that failed to a mark in the journal.

    suspect: a read has failed ─▶ the segment is read again, off the loop ─▶ mark, or it was haste
    mark ─▶ the journal says so, the replica counts nowhere, and whoever leads offers it an install (`docs/raft.md`)

Where the other voters are no majority nobody could repair it, and a mark would take the whole shard away: there what is
damaged is refused whenever it is read, and all else goes on.
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
    """Lives on the loop.  `jobs` may wait for the disk."""

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
        """The others are a majority without this replica."""
        voters, me = self._replica.voters, self._replica.me
        return has_majority(voters, [voter for voter in voters if voter != me])

    @property
    def outlook(self) -> str:
        """What becomes of it, and what to do."""
        if self.is_repairable:
            return "it is repaired once a majority of the other replicas is up and whole"
        return "no majority is there without it: stop the broker, bring the file back from a copy, and start it"

    def mark_found(self) -> None:
        """What recovery has found, before anything else is done with the shard."""
        if self.is_repairable:
            for number, offset in [*self._log.damaged_unmarked.items()]:
                self._store.mark_damage(self._log, number, offset, self._log.damage or "")

    def suspect(self, problem: SegmentDamaged) -> bool:
        """A read has met other bytes than were written, or was overtaken by a change.  False: nobody repairs it."""
        if not self.is_repairable:
            return False
        place = self._place_of(problem)
        if place is None or self._is_checking or self._replica.is_damaged:
            return True
        log, base_offset = place
        end_offset = self._high_watermarks()[log.partition]
        self._is_checking = True

        def check() -> SegmentDamaged | None:
            try:
                _read_again(log, base_offset, end_offset)
            except SegmentDamaged as found:
                return found
            except OffsetGone:
                pass  # it is not needed any more
            return None

        def looked(found: SegmentDamaged | None) -> None:
            self._is_checking = False
            if found is not None and not self._replica.is_damaged:
                self.mark(found)

        def failed(error: BaseException) -> None:
            self._is_checking = False
            raise error

        self._jobs.submit(check, looked, failed)
        return True

    def mark(self, problem: SegmentDamaged) -> None:
        """Nothing overtakes whoever has met it."""
        place = self._place_of(problem)
        if place is not None and self.is_repairable:
            self._store.mark_damage(self._log, place[0].partition, place[1], str(problem))
            self._replica.mark_damaged()
            self._changed()

    def _place_of(self, problem: SegmentDamaged) -> tuple[PartitionLog, int] | None:
        directory, _, name = problem.path.rpartition("/")
        base_offset = paths.segment_base(name)
        log = next((it for it in self._log.partitions.values() if it.directory == directory), None)
        return None if log is None or base_offset is None else (log, base_offset)


def _read_again(log: PartitionLog, base_offset: int, end_offset: int) -> None:
    """What is committed of the segment that begins at `base_offset`: nobody changes that."""
    behind = [segment.base_offset for segment in log.segments if segment.base_offset > base_offset]
    end_offset = min([end_offset, *behind])
    offset = max(base_offset, log.log_start)
    while offset < end_offset:
        found = log.read(offset, READ_BYTES, end_offset, may_wait=True)
        assert found is not None, "a read that may wait answers"
        ends = [span.header.end_offset for data in found[0] for span in spans(data)]
        if not ends:
            return
        offset = ends[-1]
