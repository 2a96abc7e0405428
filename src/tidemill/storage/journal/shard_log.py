"""A shard as its broker's disk knows it: term, vote, voters, the newest rows, and its partitions' logs."""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidemill.batches.batch import NO_PRODUCER_ID, BatchHeader, read_header
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.raft.entry import BATCH, COMMAND, Command, Entry, decode_voters
from tidemill.raft.voters import Membership
from tidemill.storage.disk import Buffer, Disk
from tidemill.storage.journal.row import RowKind
from tidemill.storage.partition.leader_epochs import uncovered
from tidemill.storage.partition.partition_log import OffsetGone, PartitionLog
from tidemill.storage.partition.partition_state import PartitionState
from tidemill.storage.partition.segment import Segment
from tidemill.storage.partition.tail_cache import TailCache
from tidemill.storage.shard_machine import MachineRegistry

TAIL_ENTRIES: Final = 256
NEEDED_ENTRIES_MAX: Final = 64 << 10  # kept for a follower that lags: 20 MB, 8 s at 8,000 a second; then an install


class Truncated(NamedTuple):
    """What a truncation did to segments."""

    removed: list[Segment]  # nothing is left of them
    cut: list[Segment]  # their ends are gone


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardDescriptor:
    """What `opened` says: enough to serve the shard without the cluster's metadata."""

    topic_id: TopicId
    first_partition: int
    partition_count: int
    feature_level: int
    membership: Membership

    def encode(self) -> bytes:
        numbers = self.first_partition.to_bytes(4) + self.partition_count.to_bytes(4) + self.feature_level.to_bytes(2)
        return self.topic_id + numbers + self.membership.encode()

    @classmethod
    def decode(cls, data: Buffer) -> "ShardDescriptor":
        return cls(
            topic_id=TopicId(bytes(data[:16])),
            first_partition=int.from_bytes(data[16:20]),
            partition_count=int.from_bytes(data[20:24]),
            feature_level=int.from_bytes(data[24:26]),
            membership=Membership.decode(data, 26),
        )


class ShardLog:
    """
    Is the replica's `LogView`.  Everything here changes at append; `commit_index` only says what may be forgotten.
    """

    __slots__ = (
        "_term_starts",
        "_time_before",
        "changed",
        "commit_index",
        "damage",
        "damaged_unmarked",
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
        "opening",
        "partitions",
        "section",
        "shard_id",
        "term",
        "voted_for",
    )

    def __init__(
        self, disk: Disk, cache: TailCache, shard_id: ShardId, opening: ShardDescriptor, machines: MachineRegistry
    ) -> None:
        self.shard_id = shard_id
        self.opening = opening
        self.term = 0
        self.voted_for: ReplicaKey | None = None
        self.memberships = [(0, opening.membership)]  # (log index, in force from there on)
        self.commit_index = 0
        self.first_index = 1
        self.last_index = 0
        self.last_append_time = 0
        self._time_before = 0  # append time of the entry before `first_index`
        self.entries: deque[Entry] = deque()  # from `first_index` to `last_index`
        self._term_starts: list[tuple[int, int]] = [(0, 0)]  # (first index, term)
        self.is_led = True  # here, so that readers come here; until something else is known
        self.installing: tuple[int, int] | None = None  # a snapshot's index and term: its bytes are not all here
        self.install_parts: list[bytes] = []  # recovery's: of a row that it has not met whole yet
        self.damage: str | None = None  # why this replica must not serve, vote or count
        self.is_marked = False  # … and the journal says so, until an install has ended
        self.marked: dict[int, int] = {}  # by partition: from the segment that holds this offset on, files are not kept
        self.damaged_unmarked: dict[int, int] = {}  # alike, of what recovery has found, and the journal does not tell
        self.changed = True  # since its checkpoint section was last encoded
        self.section = b""
        numbers = range(opening.first_partition, opening.first_partition + opening.partition_count)
        self.partitions = {number: PartitionLog(disk, cache, opening.topic_id, number) for number in numbers}
        self.machines = machines.make(self.partitions)

    def restore_boundary(self, index: int, term: int, append_time: int) -> None:
        """The log continues after (index, term), whose rows are no longer kept."""
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
        """What `partition` has from the segment that holds `offset` on is not what was written."""
        self.damage = self.damage or problem
        self.is_marked = True
        self.marked[partition] = min(offset, self.marked.get(partition, offset))
        self.damaged_unmarked.pop(partition, None)
        self.changed = True

    def damaged_from(self, partition: int) -> int | None:
        """The first offset that its files do not hold for sure."""
        known = [places[partition] for places in (self.marked, self.damaged_unmarked) if partition in places]
        return min(known, default=None)

    def begin_install(self, index: int, term: int, states: list[PartitionState]) -> None:
        """
        The partitions hold what is alike with a snapshot.  The last row that was here stays known, for votes claim it.
        """
        committed = self.commit_index
        self.restore_boundary(self.last_index, self.term_at(self.last_index), self.last_append_time)
        self.commit_index = committed
        self.installing = (index, term)
        self.restore_partitions(states)
        self.machines.clear()
        for places in (self.marked, self.damaged_unmarked):
            for state in states:
                if state.partition in places and not state.holds(places[state.partition]):
                    del places[state.partition]  # nothing is left of it; what the others have is still to be copied
        self.changed = True

    def end_install(self, index: int, term: int, last_append_time: int, membership: Membership) -> None:
        """The log begins anew behind the snapshot, which the partitions hold."""
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
        """Of the last committed entry; nothing that is truncated later can have moved it."""
        is_here = self.commit_index >= self.first_index
        return self.entry_at(self.commit_index).append_time if is_here else self._time_before

    def term_start(self, index: int) -> tuple[int, int]:
        """(First index that is known of it, term) of the entry at `index`."""
        return self._term_starts[bisect_right(self._term_starts, index, key=lambda start: start[0]) - 1]

    def append(self, entry: Entry) -> None:
        """Add an entry to the log and to the state of the machines; a batch is assigned its position."""
        if entry.term != self._term_starts[-1][1]:
            self._begin_epochs(entry)
        self._note(entry)
        if entry.kind == BATCH:
            self._batch_appended(entry, self.partitions[entry.partition].append(entry))
        elif self.machines.command_appended:
            self._command_appended(entry)

    def replay(self, entry: Entry, header: BatchHeader | None) -> None:
        """Add an entry as `append` does, in recovery: a batch already has its position.  `header` is the batch's."""
        if entry.term != self._term_starts[-1][1]:
            self._begin_epochs(entry)
        self._note(entry)
        if header is not None:
            self._place_again(self.partitions[entry.partition], entry, header.max_timestamp)
            self._batch_appended(entry, header)
        elif self.machines.command_appended:
            self._command_appended(entry)

    def _batch_appended(self, entry: Entry, header: BatchHeader) -> None:
        machines = self.machines
        if machines.hears_batches or (machines.hears_producers and header.producer_id != NO_PRODUCER_ID):
            machines.batch_appended(entry, header, self.commit_index)

    def _command_appended(self, entry: Entry) -> None:
        payload = entry.payload
        if entry.kind == COMMAND and payload:
            for told in self.machines.command_appended.get(int(payload[0]), ()):
                told(entry, None, self.commit_index)

    def remember(self, entry: Entry) -> None:
        """Add a row of a checkpoint.  The checkpoint's partitions and machine sections already contain its effects."""
        self._note(entry)

    def _begin_epochs(self, entry: Entry) -> None:
        """The first entry of a term begins an epoch in every partition, each at its own end offset."""
        for partition in self.partitions.values():
            partition.epochs.begin(entry.term, partition.end_offset, entry.index)

    def _note(self, entry: Entry) -> None:
        assert entry.index == self.last_index + 1, f"{entry} does not follow entry {self.last_index}"
        self.changed = True
        self.last_index = entry.index
        if entry.term != self._term_starts[-1][1]:
            self._term_starts.append((entry.index, entry.term))
        if entry.append_time > self.last_append_time:
            self.last_append_time = entry.append_time
        self.entries.append(entry)
        if entry.kind == COMMAND and entry.payload and entry.payload[0] == Command.VOTERS:
            self.memberships.append((entry.index, Membership.decode(entry.payload, 1)))

    def _place_again(self, log: PartitionLog, entry: Entry, max_timestamp: int) -> None:
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
        """Entries from `from_index` on are gone."""
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
        What is committed is never truncated.  All but the newest `tail_entries` of it may be forgotten, but for what a
        member still needs, from `needed_index` on.
        """
        if self.machines.hears_commits:
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
        When recovery has all rows (a settled offset comes before batches that lie below it): only what is committed was
        ever settled.  Not knowing that, a leader could neither send entries whose bytes are gone nor offer a snapshot
        that has them.
        """
        for entry in reversed(self.entries):
            if entry.kind == BATCH and entry.base_offset < self.partitions[entry.partition].trimmed:
                if self.machines.hears_commits:
                    self._entries_committed(entry.index)
                self.commit_index = max(self.commit_index, entry.index)
                self._drop_old_memberships()
                return

    def _entries_committed(self, index: int) -> None:
        """Report the entries behind the commit index, up to `index`, to the machines."""
        for at in range(self.commit_index + 1, index + 1):
            self.machines.entry_committed(self.entry_at(at))

    def _drop_old_memberships(self) -> None:
        while len(self.memberships) > 1 and self.memberships[1][0] <= self.commit_index:
            del self.memberships[0]

    def holds(self, entry: Entry) -> bool:
        """Whether it is still in the log: neither truncated nor forgotten."""
        at = entry.index - self.first_index
        return 0 <= at < len(self.entries) and self.entries[at] is entry

    def entry_at(self, index: int) -> Entry:
        return self.entries[index - self.first_index]

    def payload_of(self, entry: Entry, *, may_wait: bool) -> Buffer | None:
        """
        Its bytes, from memory or its segment; None when that needs the disk and `may_wait` is false.  OffsetGone when
        they are not needed any more, SegmentDamaged rather than other bytes.
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
