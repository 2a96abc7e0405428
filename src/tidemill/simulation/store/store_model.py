"""The model of the store: the state that the disk must have after each block, computed without the store's code.

A row is recorded when it is submitted, and replayed when its block is gathered, so each block leads to exactly one
state.  After a crash, the store must be in the state after some block between the newest acknowledged and the newest
gathered block.  There is one exception: a checkpoint may already contain truncations and trimmed offsets that were
still queued.

Successive states share the parts that are equal.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidemill.batches.batch import NO_PRODUCER_ID, last_sequence, read_header
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.entry import BATCH, Entry
from tidemill.storage.journal.shard_log import ShardDescriptor

PRODUCER_BATCHES: Final = 5  # KIP-98: a retry may repeat one of the newest five batches


class ModelEntry(NamedTuple):
    """An entry as it was submitted, with a copy of its bytes."""

    log_index: int
    term: int
    kind: int
    partition: int
    base_offset: int
    record_count: int
    append_time: int
    payload: bytes


class ProducedBatch(NamedTuple):
    """The properties of a batch by which a retry of it is recognized."""

    epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int
    log_index: int


class Row(NamedTuple):
    """
    A row of the journal.  At most one field in addition to the shard id is set; if none is set, the row closes the
    shard.
    """

    shard_id: ShardId
    descriptor: ShardDescriptor | None = None
    vote: tuple[int, ReplicaKey | None] | None = None
    entry: ModelEntry | None = None
    truncated_from: int | None = None
    trimmed: tuple[int, int] | None = None  # (partition, offset)


@dataclass(slots=True)
class PartitionModel:
    """The state of one partition, derived from the entries of its shard."""

    data: bytes
    positions: dict[int, int]  # base offset of each batch → its position in `data`
    end_offset: int
    epochs: list[tuple[int, int]]  # (epoch, start offset)
    producers: dict[int, tuple[ProducedBatch, ...]]  # the newest batches of each producer


@dataclass(slots=True)
class ShardModel:
    descriptor: ShardDescriptor
    term: int = 0
    voted_for: ReplicaKey | None = None
    entries: list[ModelEntry] = field(default_factory=list)  # entry i has index i + 1
    trimmed: dict[int, int] = field(default_factory=dict)
    claimed: tuple[int, int] | None = None  # index and term of the last entry that a replica had before it came back
    _partitions: dict[int, PartitionModel] = field(default_factory=dict)

    def copy(self) -> "ShardModel":
        return ShardModel(
            self.descriptor, self.term, self.voted_for, list(self.entries), dict(self.trimmed), self.claimed
        )

    @property
    def last(self) -> tuple[int, int]:
        """The index and the term of the last entry that the replica has, or claims to have had."""
        return self.claimed or (len(self.entries), self.entries[-1].term if self.entries else 0)

    def term_at(self, index: int) -> int:
        return self.entries[index - 1].term if index else 0

    def partition(self, number: int) -> PartitionModel:
        found = self._partitions.get(number)
        if found is None:
            found = self._partitions[number] = self._derive(number)
        return found

    def _derive(self, number: int) -> PartitionModel:
        data = bytearray()
        positions: dict[int, int] = {}
        end_offset = term = 0
        starts: list[tuple[int, int]] = []
        producers: dict[int, list[ProducedBatch]] = {}
        for entry in self.entries:
            if entry.term != term:
                term = entry.term
                starts = [start for start in starts if start[1] != end_offset]
                starts.append((term, end_offset))
            if entry.kind != BATCH or entry.partition != number:
                continue
            positions[entry.base_offset] = len(data)
            data += entry.payload
            end_offset = entry.base_offset + entry.record_count
            header = read_header(entry.payload)
            if header.producer_id != NO_PRODUCER_ID:
                produced = ProducedBatch(
                    header.producer_epoch,
                    header.base_sequence,
                    last_sequence(header),
                    entry.base_offset,
                    entry.log_index,
                )
                producers.setdefault(header.producer_id, []).append(produced)
        newest = {producer: tuple(batches[-PRODUCER_BATCHES:]) for producer, batches in producers.items()}
        epochs = _above(starts, self.trimmed.get(number, 0))
        return PartitionModel(bytes(data), positions, end_offset, epochs, newest)


def _above(starts: list[tuple[int, int]], trimmed: int) -> list[tuple[int, int]]:
    """Drop the epochs below the log start, and move the start of the epoch that covers it up to the log start."""
    covering = max((place for place, (_, start) in enumerate(starts) if start <= trimmed), default=None)
    if covering is None:
        return starts
    return [(starts[covering][0], trimmed), *starts[covering + 1 :]]


@dataclass(slots=True)
class StoreModel:
    """The state of the store after a block."""

    shards: dict[ShardId, ShardModel] = field(default_factory=dict)
    closed: dict[ShardId, tuple[int, ReplicaKey | None, int, int]] = field(default_factory=dict)

    def after(self, rows: list[Row]) -> "StoreModel":
        shards, closed = dict(self.shards), dict(self.closed)
        copied: set[ShardId] = set()
        for row in rows:
            shard_id = row.shard_id
            if row.descriptor is not None:
                opened = shards[shard_id] = ShardModel(row.descriptor)
                if shard_id in closed:
                    opened.term, opened.voted_for, *last = closed.pop(shard_id)
                    opened.claimed = (last[0], last[1])
                copied.add(shard_id)
                continue
            if shard_id not in shards:
                continue  # the shard is closed; its entries may have been queued before that
            if shard_id not in copied:
                shards[shard_id] = shards[shard_id].copy()
                copied.add(shard_id)
            shard = shards[shard_id]
            if row.vote is not None:
                shard.term, shard.voted_for = row.vote
            elif row.entry is not None:
                assert row.entry.log_index == len(shard.entries) + 1, f"{row.entry} does not follow in {shard_id}"
                shard.entries.append(row.entry)
            elif row.truncated_from is not None:
                del shard.entries[row.truncated_from - 1 :]
            elif row.trimmed is not None:
                partition, offset = row.trimmed
                shard.trimmed[partition] = max(offset, shard.trimmed.get(partition, 0))
            else:
                closed[shard_id] = (shard.term, shard.voted_for, *shard.last)
                del shards[shard_id]
        return StoreModel(shards, closed)


class StoreHistory:
    """The submitted rows, the block that holds each of them, and the newest acknowledged block.

    Control rows are gathered before entries, and the entries of a shard are gathered in order.  A truncation removes
    the entries that no block holds yet, and becomes a row only if a block holds some of the truncated entries.  Closing
    a shard removes all of its entries that no block holds yet.
    """

    def __init__(self, model: StoreModel, sequence: int) -> None:
        self.models = {sequence: model}
        self.gathered = sequence
        self.acknowledged = sequence
        self.committed: dict[ShardId, int] = {}
        self._control_rows: list[Row] = []
        self._entries: list[Row] = []
        self._removing: list[tuple[int, Row]] = []  # gathered truncations and trims: (sequence of the block, row)

    def submit(self, row: Row) -> None:
        if row.entry is not None:
            self._entries.append(row)
        elif row == Row(row.shard_id):  # closes the shard
            self._entries = [it for it in self._entries if it.shard_id != row.shard_id]
            self._control_rows.append(row)
        elif row.truncated_from is None or self._drop_waiting(row.shard_id, row.truncated_from):
            self._control_rows.append(row)

    def _drop_waiting(self, shard_id: ShardId, from_index: int) -> bool:
        """
        Drop the waiting entries that a truncation removes.  Return whether blocks hold any of the truncated entries.
        """
        waiting = [row.entry.log_index for row in self._entries if row.shard_id == shard_id and row.entry is not None]
        self._entries = [
            row
            for row in self._entries
            if row.shard_id != shard_id or row.entry is None or row.entry.log_index < from_index
        ]
        return not waiting or from_index < waiting[0]

    def submit_entry(self, shard_id: ShardId, entry: Entry) -> None:
        payload = entry.payload
        assert payload is not None, f"{entry} is submitted without bytes"
        self.submit(
            Row(
                shard_id,
                entry=ModelEntry(
                    entry.index,
                    entry.term,
                    entry.kind,
                    entry.partition,
                    entry.base_offset,
                    entry.record_count,
                    entry.append_time,
                    bytes(payload),
                ),
            )
        )

    def gather(self, sequence: int, shard_ids: list[ShardId]) -> None:
        """Record a block that contains rows of these shards, in this order."""
        rows, self._control_rows = self._control_rows[: len(shard_ids)], self._control_rows[len(shard_ids) :]
        self._removing += [(sequence, row) for row in rows if row.truncated_from is not None or row.trimmed is not None]
        for shard_id in shard_ids[len(rows) :]:
            place = next(place for place, row in enumerate(self._entries) if row.shard_id == shard_id)
            rows.append(self._entries.pop(place))
        self.models[sequence] = self.models[self.gathered].after(rows)
        self.gathered = sequence

    def acknowledge(self, sequence: int) -> None:
        self.acknowledged = sequence

    def model_at(
        self, sequence: int, ends: dict[ShardId, int], trimmed: dict[tuple[ShardId, int], int]
    ) -> StoreModel | None:
        """Return the state after a block, or None if the block is not known.

        Later truncations and trims are included if the store already shows their effect: `ends` maps each shard to the
        last index of its log in the store, and `trimmed` each partition to its trimmed offset.
        """
        model = self.models.get(sequence)
        if model is None:
            return None
        truncations: dict[ShardId, int] = {}
        for row in [*(row for block, row in self._removing if block > sequence), *self._control_rows]:
            shard_id, from_index = row.shard_id, row.truncated_from
            if row.trimmed is not None and row.trimmed[1] <= trimmed.get((shard_id, row.trimmed[0]), -1):
                model = model.after([row])
            if from_index is not None:
                truncations[shard_id] = min(from_index, truncations.get(shard_id, from_index))
                if ends.get(shard_id) == truncations[shard_id] - 1 < len(model.shards[shard_id].entries):
                    model = model.after([row._replace(truncated_from=truncations[shard_id])])
        return model
