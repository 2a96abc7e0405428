"""The leader's side of an install: the leader offers a member a snapshot, and sends the bytes that the member pulls.

All members share one snapshot.  It is taken at the commit index, and is used as long as the rows after it are in
memory.  Retention may delete bytes that the snapshot lists: a member that pulls deleted bytes is offered a newer
snapshot, and keeps the bytes that it has copied.  An installing member uses one chunk of the leader's memory per pull,
and otherwise none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.entry import BATCH, Entry
from tidemill.raft.messages import Message, SnapshotChunk, SnapshotOffer, SnapshotPull
from tidemill.raft.replica import Replica
from tidemill.raft.voters import Membership
from tidemill.shard.jobs import Jobs
from tidemill.shard.learner_pacing import LearnerPacing
from tidemill.storage.checkpoint.checkpoint import state_of
from tidemill.storage.disk import Buffer
from tidemill.storage.journal.queued_rows import QueuedRows
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.machine_sections import encode_sections
from tidemill.storage.partition.partition_log import OffsetGone, PartitionLog
from tidemill.storage.partition.partition_state import encode_partitions
from tidemill.storage.partition.segment import SegmentDamaged

CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state built by a shard's committed log up to `index`, without the bytes of the batches."""

    index: int
    term: int
    append_time: int
    membership: Membership
    end_offsets: dict[int, int]
    state: bytes  # the state of partitions and of shard state machines


def snapshot_of(log: ShardLog) -> Snapshot:
    """Return a snapshot of `log` at its commit index, without the effects of later entries."""
    index = log.commit_index
    firsts: dict[int, Entry] = {}
    for number in range(index + 1, log.last_index + 1):
        entry = log.entry_at(number)
        if entry.kind == BATCH:
            firsts.setdefault(entry.partition, entry)
    behind = QueuedRows(first_index=index + 1, firsts=firsts)
    states = [state_of(log, partition, index, behind) for partition in log.partitions.values()]
    for state in states:
        state.segments = []
        state.trimmed = state.log_start
    return Snapshot(
        index=index,
        term=log.term_at(index),
        append_time=log.committed_append_time,
        membership=[membership for at, membership in log.memberships if at <= index][-1],
        end_offsets={state.partition: state.end_offset for state in states},
        state=encode_partitions(states) + encode_sections(log.machines, index, index),
    )


class CatchUp:
    """The installs that a leader serves.  Runs on the event loop; `jobs` reads bytes that are not in the page cache."""

    def __init__(
        self,
        log: ShardLog,
        replica: Replica,
        send: Callable[[ReplicaKey, Message], None],
        jobs: Jobs,
        suspect: Callable[[SegmentDamaged], bool],
        pacing: LearnerPacing,
    ) -> None:
        """`suspect` is called when a read has found damaged bytes, and returns whether they will be repaired."""
        self._suspect = suspect
        self._log = log
        self._replica = replica
        self._send = send
        self._jobs = jobs
        self._pacing = pacing
        self._pulls: dict[ReplicaKey, SnapshotPull] = {}  # the newest pull of each member that installs
        self._held: dict[ReplicaKey, SnapshotPull] = {}  # the newest pull of each learner that has to wait
        self._snapshot: Snapshot | None = None
        self._reading: set[ReplicaKey] = set()  # members for which a job is reading a chunk; at most one job each
        self._is_stuck = False

    def offer(self, member: ReplicaKey) -> None:
        """Offer `member` a snapshot, or do nothing if it is too early.  The replica asks again until one is offered."""
        if not self._may_offer(member):
            return
        snapshot = self._snapshot
        if snapshot is None or self._is_old(snapshot, member):
            snapshot = self._snapshot = snapshot_of(self._log)
        self._replica.offered(member, snapshot.index)
        offer = SnapshotOffer(
            term=self._replica.term,
            index=snapshot.index,
            index_term=snapshot.term,
            append_time=snapshot.append_time,
            membership=snapshot.membership,
            state=snapshot.state,
        )
        self._pacing.sent(member, len(snapshot.state))
        self._send(member, offer)

    def _may_offer(self, member: ReplicaKey) -> bool:
        """
        Return whether the log is committed and applied far enough for an offer to `member`.

        A learner may be a replica that came back and votes by the last entry of its former life, which it no longer
        claims after an install.  So it is offered nothing before this leader knows, and has applied, what was committed
        before its term.  A voter cannot wait for that, because the leader may need its acknowledgement.  But there is
        no snapshot of an empty log: its install would never end.
        """
        committed = self._log.commit_index
        return committed >= self._replica.term_start_index or (member in self._replica.voters and committed > 0)

    def _is_old(self, snapshot: Snapshot, member: ReplicaKey) -> bool:
        """
        Return whether `snapshot` cannot be used for `member`, for one of four reasons: the rows after the snapshot are
        not in memory; `member` has everything in the snapshot, and needs later entries whose bytes were deleted; the
        snapshot is too old to repair a damaged `member`; or `member` is already installing a newer snapshot from an
        earlier leader, and accepts no older one.
        """
        status = self._replica.status().members.get(member)
        if status is not None and status.match_index >= snapshot.index:
            return True
        repair_floor = None if status is None else status.repair_floor
        if repair_floor is not None and (snapshot.term, snapshot.index) < repair_floor:
            return True  # the member may have acknowledged later entries
        known = 0 if status is None else min(status.commit_index, self._log.commit_index)
        return snapshot.index < max(known, self._log.first_index - 1)

    def answer(self, member: ReplicaKey, pull: SnapshotPull) -> None:
        snapshot = self._snapshot
        if snapshot is None or pull.index != snapshot.index:
            self.offer(member)
            return
        self._pulls[member] = pull
        end_offset = snapshot.end_offsets.get(pull.partition)
        if end_offset is None or member in self._reading:
            return
        if not self._pacing.is_due(member):
            self._held[member] = pull
            return
        log = self._log.partitions[pull.partition]
        try:
            found = log.read(pull.offset, CHUNK_BYTES, end_offset, may_wait=False)
        except OffsetGone:
            self._offer_newer(member)
            return
        except SegmentDamaged as problem:
            self._is_stuck |= not self._suspect(problem)
            return
        if found is not None:
            self._send_chunk(member, pull, found[0])
            return
        self._reading.add(member)

        def read() -> list[Buffer] | SegmentDamaged | None:
            try:
                came = log.read(pull.offset, CHUNK_BYTES, end_offset, may_wait=True)
            except OffsetGone:
                return None
            except SegmentDamaged as problem:
                return problem
            assert came is not None, "a read that may wait returns bytes"
            return came[0]

        def done(parts: list[Buffer] | SegmentDamaged | None) -> None:
            self._reading.discard(member)
            leads_on = self._replica.leads and self._replica.term == pull.term
            if isinstance(parts, SegmentDamaged):
                self._is_stuck |= not self._suspect(parts) and leads_on
                return
            if not leads_on:
                return
            if parts is None:
                self._offer_newer(member)
            else:
                self._send_chunk(member, pull, parts)

        def failed(error: BaseException) -> None:
            self._reading.discard(member)  # the member will repeat its pull
            raise error

        self._jobs.submit(read, done, failed)

    def missing_bytes(self, member: ReplicaKey) -> int | None:
        """
        Return about how many bytes of the shard a member that installs lacks, including those after the snapshot; None
        before its first pull.  It pulls one partition after the other, in their order, each from its own end on.
        """
        pull = self._pulls.get(member)
        if pull is None or pull.term != self._replica.term:
            return None
        missing = 0
        for number, log in self._log.partitions.items():
            if number > pull.partition:
                missing += log.size_bytes
            elif number == pull.partition:
                missing += _bytes_from(log, pull.offset)
        return missing

    def answer_held(self, member: ReplicaKey) -> None:
        """Answer the pull of `member` that had to wait, if there is one."""
        pull = self._held.pop(member, None)
        if pull is not None and self._replica.term == pull.term and self._replica.is_pulling(member):
            self.answer(member, pull)

    def _offer_newer(self, member: ReplicaKey) -> None:
        self._snapshot = None
        self.offer(member)

    def _send_chunk(self, member: ReplicaKey, pull: SnapshotPull, parts: list[Buffer]) -> None:
        if parts:
            chunk = SnapshotChunk(
                term=pull.term, index=pull.index, partition=pull.partition, offset=pull.offset, payload=tuple(parts)
            )
            self._pacing.sent(member, sum(map(len, parts)))
            self._send(member, chunk)

    def tick(self) -> bool:
        """
        Drop the snapshot if no member needs an install.  Called a few times a second.  Return whether, since the last
        call, a member has pulled bytes that are damaged on this broker and will not be repaired: another leader may
        have undamaged copies.
        """
        for member in self._held:
            self._replica.is_pulling(member)
        if self._snapshot is not None or self._pulls:
            members = self._replica.status().members
            installing = {key for key, member in members.items() if member.is_installing}
            self._pulls = {key: pull for key, pull in self._pulls.items() if key in installing}
            if not installing:
                self._snapshot = None
        is_stuck, self._is_stuck = self._is_stuck, False
        return is_stuck


def _bytes_from(log: PartitionLog, offset: int) -> int:
    """Return about how many bytes of a partition lie at `offset` or behind; within a segment, batches count as even."""
    missing, end = 0, log.end_offset
    for segment in reversed(log.segments):
        if end <= offset:
            break
        start = max(offset, segment.base_offset)
        missing += segment.size * (end - start) // max(1, end - segment.base_offset)
        end = segment.base_offset
    return missing
