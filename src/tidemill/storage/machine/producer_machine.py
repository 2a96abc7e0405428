"""Producer states as a shard state machine (number 2).

The state of a partition is `PartitionLog.producers`, so that the append path can check whether a batch is a retry
without the machine.  Producer states change at append, so that a retry is recognized even if it arrives before the
original has committed.  Section: `docs/formats/journal.md`.
"""

from collections.abc import Mapping
from functools import partial
from struct import Struct, error
from typing import Final

from tidemill.batches.batch import BatchHeader
from tidemill.raft.entry import Entry
from tidemill.storage.machine.shard_machine import Batches, Interest, MachineNumber, MachineType
from tidemill.storage.partition.partition_log import PartitionLog
from tidemill.storage.partition.partition_state import COUNT, ByteReader
from tidemill.storage.partition.producer_states import SEQUENCE_MODULUS, ProducerBatch

VERSION: Final = 1
PRODUCER_EXPIRATION_MS: Final = 24 * 3_600_000
_PRODUCER: Final = Struct(">qI")
_BATCH: Final = Struct(">hIIqqQq")
Window = tuple[ProducerBatch, ...]


class ProducerStateMachine:
    """The producer states of a shard's partitions."""

    is_restored = True

    def __init__(self, expiration_ms: int, partitions: Mapping[int, PartitionLog]) -> None:
        self._expiration_ms = expiration_ms
        self._producers = {number: partition.producers for number, partition in partitions.items()}

    def appended(self, entry: Entry, header: BatchHeader | None, commit_index: int) -> None:
        """Record a batch with a producer id that was appended to the log or replayed by recovery."""
        assert header is not None, f"{entry} is not a batch"
        first = header.base_sequence
        last = (first + entry.record_count - 1) % SEQUENCE_MODULUS
        end_offset = entry.base_offset + entry.record_count
        batch = ProducerBatch(
            header.producer_epoch, first, last, entry.base_offset, end_offset, entry.index, entry.append_time
        )
        self._producers[entry.partition].append(header.producer_id, batch, commit_index)

    def committed(self, entry: Entry) -> None:
        raise AssertionError(f"producer states do not change at commit ({entry})")

    def truncated(self, from_index: int) -> None:
        for producers in self._producers.values():
            producers.truncate(from_index)

    def forget_expired(self, commit_index: int, committed_append_time: int) -> None:
        for producers in self._producers.values():
            producers.expire(commit_index, committed_append_time - self._expiration_ms)

    def save(self, commit_index: int, last_index: int) -> dict[int, bytes]:
        saved = {}
        for number, producers in self._producers.items():
            windows = producers.saved(commit_index, last_index)
            if windows:
                saved[number] = encode_producers(windows)
        return saved

    def load(self, saved: Mapping[int, Mapping[int, Window]]) -> None:
        for number, producers in self._producers.items():
            producers.load(saved.get(number, {}))


def encode_producers(windows: Mapping[int, Window]) -> bytes:
    """Return the section's bytes for one partition: the remembered batches of each producer."""
    parts = [COUNT.pack(len(windows))]
    for producer_id, batches in windows.items():
        parts.append(_PRODUCER.pack(producer_id, len(batches)))
        parts += [_BATCH.pack(*batch) for batch in batches]
    return b"".join(parts)


def decode_producers(data: bytes) -> dict[int, Window]:
    """Return the batches by producer id.  Raises struct.error if `data` is corrupt."""
    reader = ByteReader(data)
    windows = {}
    for _ in range(reader.count()):
        producer_id, batch_count = reader.numbers(_PRODUCER)
        windows[producer_id] = tuple(ProducerBatch(*reader.numbers(_BATCH)) for _ in range(batch_count))
    if reader.at != len(data):
        raise error(f"{len(data) - reader.at} B follow the last producer")
    if not all(windows.values()):
        raise error("a producer has no batches")
    return windows


def producer_states(expiration_ms: int = PRODUCER_EXPIRATION_MS) -> MachineType:
    """Return the machine type.  A producer is forgotten `expiration_ms` after the append time of its last batch."""
    return MachineType(
        number=MachineNumber.PRODUCER_STATES,
        version=VERSION,
        make=partial(ProducerStateMachine, expiration_ms),
        decode=decode_producers,
        at_append=Interest(Batches.OF_PRODUCERS),
    )
