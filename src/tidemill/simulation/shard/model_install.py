"""An install between two model logs: a simple version of `shard/catch_up.py` and `shard/install.py`.

The model has one partition, and an entry's index serves as its offset.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.messages import Message, SnapshotChunk, SnapshotOffer, SnapshotPull
from tidemill.raft.replica import Replica
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.shard.model_log import Installed, Installing, ModelLog, Record, Row
from tidemill.storage.partition.leader_epochs import meeting_offset

_START: Final = Struct(">QQ")
_RECORD: Final = Struct(">QQI")


def term_starts(content: Sequence[Record]) -> list[tuple[int, int]]:
    """Return (term, first index) for each term in a log."""
    starts: list[tuple[int, int]] = []
    for index, term, _ in content:
        if not starts or starts[-1][0] != term:
            starts.append((term, index))
    return starts


class ModelCatchUp:
    """
    The leader's side.  All followers receive the same snapshot as long as the leader has the entries after the
    snapshot.
    """

    def __init__(self, replica: Replica, memory: ModelLog, entries_max: Callable[[], int]) -> None:
        self._replica = replica
        self._memory = memory
        self._entries_max = entries_max  # returns the limit on the entries in a chunk
        self._offer: SnapshotOffer | None = None

    def offer(self, member: ReplicaKey) -> tuple[ReplicaKey, Message]:
        replica, memory = self._replica, self._memory
        offer = self._offer
        if offer is None or offer.term != replica.term or memory.first_index > offer.index + 1:
            offer = self._offer = self._snapshot()
        elif replica.leads:
            status = replica.status().members[member]
            known, floor = min(status.commit_index, memory.commit_index), status.repair_floor
            if offer.index < known or (floor is not None and (offer.index_term, offer.index) < floor):
                offer = self._offer = self._snapshot()
        replica.offered(member, offer.index)
        return member, offer

    def _snapshot(self) -> SnapshotOffer:
        replica, memory = self._replica, self._memory
        index = replica.stable_index
        starts = term_starts(memory.content[:index])
        return SnapshotOffer(
            term=replica.term,
            index=index,
            index_term=memory.term_at(index),
            append_time=0,
            membership=[membership for at, membership in memory.memberships if at <= index][-1],
            state=b"".join(_START.pack(*start) for start in starts),
        )

    def answer(self, member: ReplicaKey, pull: SnapshotPull) -> tuple[ReplicaKey, Message]:
        offer = self._offer
        if offer is None or offer.term != self._replica.term or pull.index != offer.index:
            return self.offer(member)
        content = self._memory.content[pull.offset - 1 : min(offer.index, pull.offset - 1 + self._entries_max())]
        payload = b"".join(_RECORD.pack(index, term, len(data)) + data for index, term, data in content)
        return member, SnapshotChunk(
            term=pull.term, index=pull.index, partition=pull.partition, offset=pull.offset, payload=(payload,)
        )


class ModelInstall:
    """
    The follower's side.  `sync_files` starts a sync of the copied entries; the caller then calls `files_synced`.  When
    a row passed to `queue` is durable, the caller passes it to `row_synced`.
    """

    def __init__(
        self,
        replica: Replica,
        memory: ModelLog,
        disk: ModelLog,
        queue: Callable[[Row], None],
        sync_files: Callable[[], None],
    ) -> None:
        self._replica = replica
        self._memory = memory
        self._disk = disk
        self._queue = queue
        self._sync_files = sync_files
        self._offer: SnapshotOffer | None = None
        self._next_offer: SnapshotOffer | None = None
        self._row: Row | None = None
        self._is_syncing = False
        self.is_pulling = False

    def offered(self, offer: SnapshotOffer) -> None:
        if self._next_offer is None and self._offer is not None and self._offer.index == offer.index:
            return  # the same snapshot was offered again, perhaps by another leader
        self._next_offer = offer
        if self.is_pulling or not (self._is_syncing or self._row):
            self._sync()

    def _sync(self) -> None:
        self.is_pulling = False
        self._is_syncing = True
        self._sync_files()

    def files_synced(self) -> None:
        self._is_syncing = False
        self._disk.copied = self._memory.copied
        if self._next_offer is not None:
            self._begin()
        else:
            self._end()

    def _begin(self) -> None:
        """Begin the install: drop the entries that differ from the leader's.  Check that none of them is committed."""
        self._offer, self._next_offer = self._next_offer, None
        offer = self._offer
        assert offer is not None, "nothing was offered"
        content = self._memory.content
        keep = self.keep(content, offer)
        # A damaged log may hold fewer entries than have been committed.
        committed = min(self._memory.commit_index, len(content))
        if keep < committed:
            raise InvariantViolation(f"an install would cut entry {keep + 1}; {committed} are committed")
        self._row = Installing(offer.index, offer.index_term, keep)
        self._queue(self._row)

    def keep(self, content: tuple[Record, ...], offer: SnapshotOffer) -> int:
        theirs = list(_START.iter_unpack(offer.state))
        meeting = meeting_offset(term_starts(content), len(content) + 1, theirs, offer.index + 1)
        return 0 if meeting is None else meeting - 1

    def row_synced(self, row: Row) -> None:
        if row is not self._row:
            return
        self._row = None
        if isinstance(row, Installing):
            if self._next_offer is not None:
                self._sync()
            else:
                self.is_pulling = True
        else:
            self._offer = None  # if the installed snapshot is damaged later, the same one may be offered again

    def pull(self) -> Message | None:
        """
        Return the next pull to send to the leader, or None if there is nothing to pull.  The caller repeats the pull
        until it is answered.
        """
        offer = self._offer
        if not self.is_pulling or offer is None:
            return None
        index = self._memory.count + 1
        if index > offer.index:
            self._sync()
            return None
        return SnapshotPull(term=self._replica.term, index=offer.index, partition=0, offset=index)

    def received(self, chunk: SnapshotChunk) -> bool:
        """Handle a chunk.  Return whether it answers the pull."""
        memory, offer = self._memory, self._offer
        if not self.is_pulling or offer is None or (chunk.index, chunk.offset) != (offer.index, memory.count + 1):
            return False
        data = b"".join(chunk.payload)
        at = 0
        while at < len(data):
            index, term, size = _RECORD.unpack_from(data, at)
            at += _RECORD.size + size
            if index != memory.count + 1:
                raise InvariantViolation(f"entry {index} was sent in place of {memory.count + 1}")
            memory.copied += ((index, term, data[at - size : at]),)
        return at > 0

    def _end(self) -> None:
        offer = self._offer
        assert offer is not None, "nothing was offered"
        self._row = Installed(offer.index, offer.index_term, offer.membership)
        self._queue(self._row)
        self._replica.installed(offer.membership)
