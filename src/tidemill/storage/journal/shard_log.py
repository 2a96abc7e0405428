"""A shard's log on one broker: term, vote, membership, the newest entries, its partitions and state machines."""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidemill.batches.batch import BatchHeader, read_header
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.timer_logs import with_hidden
from tidemill.model.topic import TopicId
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry, decode_voters
from tidemill.raft.voters import Membership
from tidemill.storage.disk import Buffer, Disk
from tidemill.storage.journal.row import RowKind
from tidemill.storage.machine.shard_machine import MachineRegistry
from tidemill.storage.partition.leader_epochs import uncovered
from tidemill.storage.partition.partition_log import OffsetGone, PartitionLog
from tidemill.storage.partition.partition_state import PartitionState
from tidemill.storage.partition.segment import Segment
from tidemill.storage.partition.tail_cache import TailCache

LEVEL_WITH_KIND: Final = 2  # from this feature level on, a descriptor has a kind
LOG_KIND: Final = 0
TIMER_KIND: Final = 1
TAIL_ENTRIES: Final = 256
NEEDED_ENTRIES_MAX: Final = 64 << 10  # about 20 MB, kept for lagging followers; those further behind need an install


class Truncated(NamedTuple):
    """The segments that a truncation changed."""

    removed: list[Segment]  # segments that no longer contain any batch
    cut: list[Segment]  # segments that now end earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardDescriptor:
    """
    The contents of an OPENED row, which suffice to recover the shard without the cluster's metadata.  A shard of a
    timer topic has `TIMER_KIND`, and a feature level of at least `LEVEL_WITH_KIND`.
    """

    topic_id: TopicId
    first_partition: int
    partition_count: int
    feature_level: int
    membership: Membership
    kind: int = LOG_KIND

    @property
    def numbers(self) -> list[int]:
        """The numbers of the shard's logs.  A partition of a timer topic has three (`model/timer_logs.py`)."""
        partitions = range(self.first_partition, self.first_partition + self.partition_count)
        return [*with_hidden(partitions)] if self.kind == TIMER_KIND else [*partitions]

    def encode(self) -> bytes:
        numbers = self.first_partition.to_bytes(4) + self.partition_count.to_bytes(4) + self.feature_level.to_bytes(2)
        kind = bytes((self.kind,)) if self.feature_level >= LEVEL_WITH_KIND else b""
        return self.topic_id + numbers + kind + self.membership.encode()

    @classmethod
    def decode(cls, data: Buffer) -> "ShardDescriptor":
        feature_level = int.from_bytes(data[24:26])
        has_kind = feature_level >= LEVEL_WITH_KIND
        return cls(
            topic_id=TopicId(bytes(data[:16])),
            first_partition=int.from_bytes(data[16:20]),
            partition_count=int.from_bytes(data[20:24]),
            feature_level=feature_level,
            membership=Membership.decode(data, 27 if has_kind else 26),
            kind=data[26] if has_kind else LOG_KIND,
        )


class ShardLog:
    """
    The implementation of the replica's `LogView`.  State changes at append; `commit` only drops old entries from memory
    and reports committed entries to the state machines.
    """

    __slots__ = (
        "_term_starts",
        "_time_before",
        "changed",
        "commit_index",
        "damage",
        "damaged_unmarked",
        "descriptor",
        "entries",
        "first_index",
        "install_parts",
        "installing",
        "is_led",
        "is_marked",
        "last_append_time",
        "last_index",
        "machines",
        "marked",
        "memberships",
        "partitions",
        "section",
        "shard_id",
        "term",
        "voted_for",
    )

    def __init__(
        self, disk: Disk, cache: TailCache, shard_id: ShardId, descriptor: ShardDescriptor, machines: MachineRegistry
    ) -> None:
        self.shard_id = shard_id
        self.descriptor = descriptor
        self.term = 0
        self.voted_for: ReplicaKey | None = None
        self.memberships = [(0, descriptor.membership)]  # (log index, membership in force from this index on)
        self.commit_index = 0
        self.first_index = 1
        self.last_index = 0
        self.last_append_time = 0
        self._time_before = 0  # append time of the entry before `first_index`
        self.entries: deque[Entry] = deque()  # from `first_index` to `last_index`
        self._term_starts: list[tuple[int, int]] = [(0, 0)]  # (first index, term)
        self.is_led = True  # this broker leads the shard, so readers are expected; true until the role is known
        self.installing: tuple[int, int] | None = None  # index and term of the snapshot that is being installed
        self.install_parts: list[bytes] = []  # in recovery: the parts of a row that is not complete yet
        self.damage: str | None = None  # why this replica must not serve, vote or count towards a majority
        self.is_marked = False  # the journal has a DAMAGED row, and no install has ended since
        self.marked: dict[int, int] = {}  # partition → offset; its segment and all later segments are damaged
        # Partition → offset, as in `marked`, for damage that recovery has found and that no row marks yet.
        self.damaged_unmarked: dict[int, int] = {}
        self.changed = True  # whether anything has changed since `section` was encoded
        self.section = b""  # the shard's section of a checkpoint
        self.partitions = {it: PartitionLog(disk, cache, descriptor.topic_id, it) for it in descriptor.numbers}
        self.machines = machines.make(self.partitions)

    def restore_boundary(self, index: int, term: int, append_time: int) -> None:
        """Continue the log after the entry (index, term, append_time), and drop all entries in memory."""
        self.last_append_time = self._time_before = append_time
        self.first_index = index + 1
        self.last_index = index
        self.commit_index = index
        self._term_starts = [(index, term)]
        self.entries.clear()

    def restore_partitions(self, states: list[PartitionState]) -> None:
        for state in states:
            self.partitions[state.partition].restore(state)

    def mark_damage(self, partition: int, offset: int, problem: str) -> None:
        """Record that `partition` is damaged, starting with the segment that holds `offset`."""
        self.damage = self.damage or problem
        self.is_marked = True
        self.marked[partition] = min(offset, self.marked.get(partition, offset))
        self.damaged_unmarked.pop(partition, None)
        self.changed = True

    def damaged_from(self, partition: int) -> int | None:
        """Return the first offset that might be missing from the partition's files; None if they are whole."""
        known = [places[partition] for places in (self.marked, self.damaged_unmarked) if partition in places]
        return min(known, default=None)

    def begin_install(self, index: int, term: int, states: list[PartitionState]) -> None:
        """
        Adopt the partitions of an INSTALLING row, which keep only batches that the snapshot also has.  Drop entries,
        but keep the last entry's index and term: this replica claims them in elections.  The machines keep their state
        until `load_sections` replaces it: nothing reads or changes it until then.
        """
        committed = self.commit_index
        self.restore_boundary(self.last_index, self.term_at(self.last_index), self.last_append_time)
        self.commit_index = committed
        self.installing = (index, term)
        self.restore_partitions(states)
        for places in (self.marked, self.damaged_unmarked):
            for state in states:
                if state.partition in places and not state.holds(places[state.partition]):
                    del places[state.partition]  # the install has dropped the damaged part
        self.changed = True

    def end_install(self, index: int, term: int, last_append_time: int, membership: Membership) -> None:
        """Make the log start right after the snapshot at (`index`, `term`), whose state the partitions now hold."""
        self.restore_boundary(index, term, last_append_time)
        self.memberships = [(index, membership)]
        self.installing = None
        if not (self.marked or self.damaged_unmarked):
            self.damage, self.is_marked = None, False
        self.changed = True

    def term_at(self, index: int) -> int:
        newest_start, newest_term = self._term_starts[-1]
        if newest_start <= index <= self.last_index:
            return newest_term
        at = bisect_right(self._term_starts, index, key=lambda start: start[0]) - 1
        assert at >= 0 and index <= self.last_index, f"term of entry {index} of shard {self.shard_id} is not known"
        return self._term_starts[at][1]

    @property
    def committed_append_time(self) -> int:
        """The append time of the last committed entry, which no truncation can change."""
        is_here = self.commit_index >= self.first_index
        return self.entry_at(self.commit_index).append_time if is_here else self._time_before

    def term_start(self, index: int) -> tuple[int, int]:
        """Return (first known index, term) for the term that contains the entry at `index`."""
        return self._term_starts[bisect_right(self._term_starts, index, key=lambda start: start[0]) - 1]

    def append(self, entry: Entry) -> None:
        """Add an entry to the log and to the state of the machines; a batch is assigned its position."""
        if entry.term != self._term_starts[-1][1]:
            self._begin_term(entry)
        self._note(entry)
        machines = self.machines
        if entry.kind == BATCH:
            header = self.partitions[entry.partition].append(entry)
            for listener in machines.batch_appended if header.producer_id < 0 else machines.producer_batch_appended:
                listener(entry, header, self.commit_index)
        elif machines.command_appended:
            self._command_appended(entry)

    def replay(self, entry: Entry, header: BatchHeader | None) -> None:
        """
        Add an entry during recovery, as `append` does.  A batch already has its position, and `header` is its header.
        """
        if entry.term != self._term_starts[-1][1]:
            self._begin_term(entry)
        self._note(entry)
        if header is not None:
            self._restore_position(self.partitions[entry.partition], entry, header.max_timestamp)
            machines = self.machines
            for listener in machines.batch_appended if header.producer_id < 0 else machines.producer_batch_appended:
                listener(entry, header, self.commit_index)
        elif self.machines.command_appended:
            self._command_appended(entry)

    def _command_appended(self, entry: Entry) -> None:
        payload = entry.payload
        if entry.kind == COMMAND and payload:
            for listener in self.machines.command_appended.get(int(payload[0]), ()):
                listener(entry, None, self.commit_index)

    def remember(self, entry: Entry) -> None:
        """Add a row of a checkpoint, whose partitions and machine sections already contain the effects of the row."""
        if entry.term != self._term_starts[-1][1]:
            self._term_starts.append((entry.index, entry.term))
        self._note(entry)

    def _begin_term(self, entry: Entry) -> None:
        """
        Begin a term with `entry`, its first entry, and begin an epoch in every partition, at that partition's end
        offset.
        """
        self._term_starts.append((entry.index, entry.term))
        for partition in self.partitions.values():
            partition.epochs.begin(entry.term, partition.end_offset, entry.index)

    def _note(self, entry: Entry) -> None:
        assert entry.index == self.last_index + 1, f"{entry} does not follow entry {self.last_index}"
        if entry.kind == COMMAND:
            self.machines.registry.check_command(self.shard_id, entry)
            if entry.payload and entry.payload[0] == Command.VOTERS:
                self.memberships.append((entry.index, Membership.decode(entry.payload, 1)))
        self.changed = True
        self.last_index = entry.index
        if entry.append_time > self.last_append_time:
            self.last_append_time = entry.append_time
        self.entries.append(entry)

    def _restore_position(self, log: PartitionLog, entry: Entry, max_timestamp: int) -> None:
        assert entry.payload is not None, f"{entry} has no bytes"
        assert entry.base_offset == log.end_offset, f"{entry} does not continue {log.end_offset} in {log.directory}"
        if not log.segments or log.segments[-1].base_offset != entry.segment_base:
            log.segments.append(Segment(log.directory, entry.segment_base))
        segment = log.segments[-1]
        assert segment.size == entry.position, (
            f"{entry} lies at {entry.position}, but {segment.path} ends at {segment.size}"
        )
        interval = log.config.index_interval_bytes
        segment.allocate(len(entry.payload), max_timestamp, entry.base_offset, interval, entry.term)
        log.end_offset = entry.base_offset + entry.record_count

    def truncate(self, from_index: int) -> Truncated:
        """Remove the entries from `from_index` on; none of them may be committed."""
        assert from_index > self.commit_index, f"entry {from_index} of shard {self.shard_id} is committed"
        self.changed = True
        removed: list[Segment] = []
        firsts: dict[int, Entry] = {}
        while self.last_index >= from_index:
            entry = self.entries.pop()
            self.last_index -= 1
            if entry.kind == BATCH:
                firsts[entry.partition] = entry
        self.last_append_time = self.entries[-1].append_time if self.entries else self._time_before
        cut: list[Segment] = []
        for number, entry in firsts.items():
            partition = self.partitions[number]
            removed += partition.truncate(entry)
            cut += partition.segments[-1:]
        for partition in self.partitions.values():
            partition.epochs.truncate(from_index)
        self.machines.truncated(from_index)
        while self._term_starts[-1][0] >= from_index:
            self._term_starts.pop()
        for partition in self.partitions.values():
            epochs = partition.epochs
            epochs.starts = uncovered(epochs.starts, self._term_starts[-1], partition.end_offset)
        while self.memberships[-1][0] >= from_index:
            self.memberships.pop()
        return Truncated(removed, cut)

    def commit(self, index: int, needed_index: int | None = None, tail_entries: int = TAIL_ENTRIES) -> None:
        """
        Set the commit index.  Drop committed entries from memory, except the newest `tail_entries` and the entries from
        `needed_index` on, which a member still needs.
        """
        if self.machines.has_commit_listeners:
            self._entries_committed(index)
        self.commit_index = index
        self.changed = True
        entries = self.entries
        forgettable = self.last_index - tail_entries
        if needed_index is not None:
            forgettable = min(forgettable, max(needed_index - 1, self.last_index - NEEDED_ENTRIES_MAX))
        spare = min(index, forgettable) - self.first_index + 1
        while spare > 0 and (entries[0].payload is None or entries[0].kind != BATCH):
            self._time_before = entries.popleft().append_time
            self.first_index += 1
            spare -= 1
        starts = self._term_starts
        while len(starts) > 1 and starts[1][0] < self.first_index:
            del starts[0]
        self._drop_old_memberships()

    def note_trimmed(self) -> None:
        """
        Raise the commit index to the last trimmed entry, because only committed entries are trimmed.  Without this, a
        leader could neither send entries whose bytes were removed nor offer a snapshot that contains them.  Call this
        method after recovery has replayed all rows, because the row of a trim may precede rows of batches below the
        trimmed offset.
        """
        for entry in reversed(self.entries):
            if entry.kind == BATCH and entry.base_offset < self.partitions[entry.partition].trimmed:
                if self.machines.has_commit_listeners:
                    self._entries_committed(entry.index)
                self.commit_index = max(self.commit_index, entry.index)
                self._drop_old_memberships()
                return

    def _entries_committed(self, index: int) -> None:
        """Report the entries after the commit index, up to `index`, to the machines."""
        machines = self.machines
        for at in range(self.commit_index + 1, index + 1):
            entry = self.entry_at(at)
            if entry.kind != BATCH or machines.has_batch_commit_listeners:
                machines.entry_committed(entry)

    def _drop_old_memberships(self) -> None:
        while len(self.memberships) > 1 and self.memberships[1][0] <= self.commit_index:
            del self.memberships[0]

    def holds(self, entry: Entry) -> bool:
        """Return whether the log holds this `Entry` object: it was neither truncated nor dropped from memory."""
        at = entry.index - self.first_index
        return 0 <= at < len(self.entries) and self.entries[at] is entry

    def entry_at(self, index: int) -> Entry:
        return self.entries[index - self.first_index]

    def payload_of(self, entry: Entry, *, may_wait: bool) -> Buffer | None:
        """
        Return the entry's bytes, from memory or its segment; None if the read would wait for the disk and `may_wait` is
        false.  Raises OffsetGone if the entry was trimmed, and SegmentDamaged if the segment's bytes are damaged.
        """
        if entry.payload is not None:
            return entry.payload
        partition = self.partitions[entry.partition]
        found = partition.read(entry.base_offset, 1, entry.base_offset + entry.record_count, may_wait=may_wait)
        if found is None:
            return None
        header = read_header(found[0][0]) if found[0] else None
        if header is None or (header.base_offset, header.leader_epoch) != (entry.base_offset, entry.term):
            raise OffsetGone(f"{entry} is not in {partition.directory} any more")
        return found[0][0]

    def close(self) -> None:
        for partition in self.partitions.values():
            partition.close()


def damage_row(partition: int, offset: int, problem: str) -> Entry:
    return Entry(RowKind.DAMAGED, problem.encode(), partition=partition, base_offset=offset)


def vote_row(term: int, voted_for: ReplicaKey | None) -> Entry:
    payload = b"" if voted_for is None else voted_for.broker_id.to_bytes(4) + voted_for.directory_id
    return Entry(RowKind.VOTE, payload, term=term)


def read_vote(entry: Entry) -> ReplicaKey | None:
    payload = entry.payload
    if not payload:
        return None
    return decode_voters(b"\x00\x01" + bytes(payload))[0][0]
