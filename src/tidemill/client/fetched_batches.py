"""Selects the data batches of a Fetch response, and determines the offset of the next fetch.

Only batch headers are read, no records.  Control batches are skipped.  Under read_committed, the batches of aborted
transactions are skipped as well: the response lists the producer and the first offset of each aborted transaction, and
the transaction ends with the producer's next control batch.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidemill.batches.batch import CONTROL, HEADER_BYTES, LENGTH_BYTES, MAGIC, TRANSACTIONAL, crc_matches
from tidemill.batches.control import AbortedTransaction
from tidemill.client.failures import ClientError

_HEADER_FIELDS: Final = Struct(">qi4xb4xhi")  # base offset, batch length, magic, attributes, last offset delta
_PRODUCER_ID: Final = Struct(">q")
_PRODUCER_ID_POSITION: Final = 43


class CorruptBatch(ClientError):
    """A batch was damaged in transit or on the broker's disk, or has an unsupported format."""


class FetchedBatches(NamedTuple):
    """The data batches in a response, and the offset of the next fetch."""

    runs: list[memoryview]  # sequences of complete data batches; more than one if batches between them were skipped
    next_offset: int  # offset of the next fetch; equal to the fetch offset if the response has no complete batch


def data_batches(
    records: memoryview,
    fetch_offset: int,
    end_offset: int,
    *,
    aborted: Sequence[AbortedTransaction] | None = None,
    is_crc_checked: bool = True,
) -> FetchedBatches:
    """
    Return the data batches of a response that overlap [fetch_offset, end_offset).

    `aborted` is the response's list of aborted transactions; it is None under read_uncommitted.  Raise CorruptBatch for
    a damaged or unsupported batch.
    """
    runs: list[memoryview] = []
    waiting = sorted(aborted or (), key=lambda one: one.first_offset, reverse=True)
    aborting: set[int] = set()
    next_offset = fetch_offset
    position = run_start = 0
    while position + HEADER_BYTES <= len(records) and next_offset < end_offset:
        base_offset, length, magic, attributes, last_offset_delta = _HEADER_FIELDS.unpack_from(records, position)
        end = position + LENGTH_BYTES + length
        if magic != MAGIC:
            raise CorruptBatch(
                f"the records at offset {base_offset} have format {magic}; only format 2 (Kafka 0.11) is supported"
            )
        if length < HEADER_BYTES - LENGTH_BYTES:
            raise CorruptBatch(f"the batch at offset {base_offset} has an invalid length of {length} bytes")
        if end > len(records):
            break  # The broker's byte limit truncated this batch; the next fetch returns the complete batch.
        if base_offset >= end_offset:
            next_offset = end_offset  # The partition has no records from the last batch to `end_offset`.
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
