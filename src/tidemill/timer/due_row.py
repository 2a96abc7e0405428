"""A row of the index by due time: when an arrival is due, and where its record lies.

    due        8   int64, milliseconds since the epoch; not negative
    arrival    8   uint64
    offset     8   uint64; of the record in its log; the highest bit is set in the log of kept records (`KEPT`)
    position   4   uint32; of the record in the file of its segment; UNPLACED: look the offset up
    size       4   uint32; of the record in bytes; 0 if it is UNPLACED
    CRC        4   uint32; CRC-32C of the record; 0 if it is UNPLACED
    key hash   4   uint32; CRC-32C of the key; 0 without a key
    timestamp  8   int64; the producer's, in milliseconds since the epoch

Integers are big-endian, so packed rows are in order as byte strings: by due time, then by arrival, then by offset.
The first 16 bytes are the *key*, (due, arrival).  Rows with the same key are copies of one record, and the newest copy,
with the largest offset, comes last: kept records come after arrivals, and a record that is moved again gets a larger
offset.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

ROW: Final = Struct(">qQQIIIIq")
ROW_BYTES: Final = ROW.size
_KEY: Final = Struct(">qQ")
KEY_BYTES: Final = _KEY.size
KEPT: Final = 1 << 63
UNPLACED: Final = (1 << 32) - 1


class DueRow(NamedTuple):
    due_ms: int  # since the epoch
    arrival: int
    offset: int  # of the record in its log; with `KEPT` in the log of kept records
    position: int = UNPLACED  # of the record in the file of its segment
    size: int = 0  # of the record in bytes
    crc: int = 0  # CRC-32C of the record
    key_hash: int = 0
    timestamp: int = -1  # the producer's


def pack_rows(rows: Iterable[DueRow]) -> bytes:
    return b"".join([ROW.pack(*row) for row in rows])


def unpack_rows(data: bytes) -> Iterator[DueRow]:
    """Raise struct.error if `data` does not consist of whole rows."""
    return map(DueRow._make, ROW.iter_unpack(data))


def key_of(due_ms: int, arrival: int = 0) -> bytes:
    return _KEY.pack(due_ms, arrival)


def arrivals_of(rows: bytes) -> list[int]:
    """Return the arrivals of packed rows."""
    return [arrival for _, arrival, *_ in ROW.iter_unpack(rows)]
