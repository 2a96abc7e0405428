"""What one Fetch response holds: whole batches, which of them are data, and where the next fetch begins.

Walks from header to header; no record is looked at.  Control batches are never data.  Under read_committed the
batches of aborted transactions are left out as well: the broker names, for what it sends, producers and the offset
from which on their records were aborted; a producer's next control batch ends that.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidemill.batches.batch import CONTROL, HEADER_BYTES, LENGTH_BYTES, MAGIC, TRANSACTIONAL, crc_matches
from tidemill.client.failures import ClientError

_WALKED: Final = Struct(">qi4xb4xhi")  # base offset, batch length, magic, attributes, last offset delta
_PRODUCER_ID: Final = Struct(">q")
_PRODUCER_ID_POSITION: Final = 43


class CorruptBatch(ClientError):
    """The bytes are not what the broker stored, or what it stored is damaged."""


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class FetchedBatches(NamedTuple):
    runs: list[memoryview]  # of whole data batches; one run, unless something between had to be left out
    next_offset: int  # where the next fetch begins; the fetch offset itself when there was no whole batch


def walk(
    records: memoryview,
    fetch_offset: int,
    end_offset: int,
    *,
    aborted: Sequence[AbortedTransaction] | None = None,
    is_crc_checked: bool = True,
) -> FetchedBatches:
    """The batches that reach into [fetch_offset, end_offset).  `aborted` is None under read_uncommitted."""
    runs: list[memoryview] = []
    waiting = sorted(aborted or (), key=lambda one: one.first_offset, reverse=True)
    aborting: set[int] = set()
    next_offset = fetch_offset
    position = run_start = 0
    while position + HEADER_BYTES <= len(records) and next_offset < end_offset:
        base_offset, length, magic, attributes, last_offset_delta = _WALKED.unpack_from(records, position)
        end = position + LENGTH_BYTES + length
        if magic != MAGIC:
            raise CorruptBatch(
                f"the records at offset {base_offset} have message format {magic}: only format 2 (Kafka 0.11) is read"
            )
        if length < HEADER_BYTES - LENGTH_BYTES:
            raise CorruptBatch(f"the batch at offset {base_offset} claims {length} bytes")
        if end > len(records):
            break  # cut short by the broker's limit of bytes; it comes whole with the next fetch
        if base_offset >= end_offset:
            next_offset = end_offset  # a gap up to there
            break
        if is_crc_checked and not crc_matches(records, position):
            raise CorruptBatch(f"the batch at offset {base_offset} does not match its CRC")
        batch_end_offset = base_offset + last_offset_delta + 1
        is_data = batch_end_offset > fetch_offset and not attributes & CONTROL
        if aborted is not None and attributes & TRANSACTIONAL:
            (producer_id,) = _PRODUCER_ID.unpack_from(records, position + _PRODUCER_ID_POSITION)
            while waiting and waiting[-1].first_offset < batch_end_offset:
                aborting.add(waiting.pop().producer_id)
            if attributes & CONTROL:
                aborting.discard(producer_id)
            is_data = is_data and producer_id not in aborting
        if not is_data:
            if run_start < position:
                runs.append(records[run_start:position])
            run_start = end
        next_offset = max(next_offset, batch_end_offset)
        position = end
    if run_start < position:
        runs.append(records[run_start:position])
    return FetchedBatches(runs, next_offset)
