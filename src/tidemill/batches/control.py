"""Control batches: the markers that the broker writes into a partition when a transaction ends (KIP-98).

A control batch has one record, the control and transactional bits, and the producer's id and epoch, but no sequence
number.  The key is a version (int16) and a type (int16: 0 abort, 1 commit).  The value is a version (int16) and the
epoch of the coordinator (int32).  Clients do not return control records to applications; for a reader of committed
records, the marker ends the transaction.  Other types (leader change, snapshots) belong to KRaft's log; Tidemill does
not write them.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tidemill.batches.batch import Buffer, MalformedBatch
from tidemill.batches.builder import build_batch
from tidemill.batches.records import read_records

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0


class EndMarker(IntEnum):
    """The outcome of a transaction."""

    ABORT = 0
    COMMIT = 1


class AbortedTransaction(NamedTuple):
    """
    An aborted transaction, as listed by a Fetch response.

    Readers of committed records skip the producer's transactional batches from `first_offset` to its abort marker.
    """

    producer_id: int
    first_offset: int


def build_end_marker(
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Return the control batch that ends a transaction.  It occupies one offset.  `timestamp` is in milliseconds."""
    key = _KEY.pack(_VERSION, marker)
    value = _VALUE.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [(key, value, (), timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_end_marker(batch: Buffer) -> EndMarker | None:
    """
    Return how the transaction of this control batch ended, or None for a control batch of another type.

    Raise MalformedBatch if the batch has no record with a control key.
    """
    records = read_records(batch)
    key = records[0].key if records else None
    if key is None or len(key) < _KEY.size:
        raise MalformedBatch("a control batch must have one record with a key of four bytes")
    _, kind = _KEY.unpack_from(key)
    return EndMarker(kind) if kind in (EndMarker.ABORT, EndMarker.COMMIT) else None


def coordinator_epoch_of(batch: Buffer) -> int:
    """Return the epoch of the coordinator that wrote an end marker.  Raise MalformedBatch."""
    records = read_records(batch)
    value = records[0].value if records else None
    if value is None or len(value) < _VALUE.size:
        raise MalformedBatch("an end marker's value must have a version and the coordinator's epoch")
    return int(_VALUE.unpack_from(value)[1])
