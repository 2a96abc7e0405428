"""The row of a record that waits in the index by due time: when it is due, and where its bytes are on this replica.

    due         8   ms since the epoch
    arrival     8   arrival number
    offset      8   of the record in its log; the highest bit says that the log is the kept log
    position    4   of the record in its segment's file; UNPLACED: look the offset up
    size        4   of the record in bytes; 0 if it is UNPLACED
    CRC-32C     4   of the record's bytes; 0 if it is UNPLACED
    key hash    4   CRC-32C of the key; 0 without a key
    timestamp   8   the producer's, ms since the epoch

Integers are big-endian.  Replicas agree on due time and arrival, but not on positions: their segments differ.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

ROW: Final = Struct(">qQQIIIIq")
KEPT: Final = 1 << 63
UNPLACED: Final = (1 << 32) - 1


class DueRow(NamedTuple):
    due_ms: int
    arrival: int
    offset: int
    position: int = UNPLACED
    size: int = 0
    crc: int = 0
    key_hash: int = 0
    timestamp: int = -1


def pack_rows(rows: Iterable[DueRow]) -> bytes:
    pack = ROW.pack
    return b"".join([pack(*row) for row in rows])


def unpack_rows(data: bytes) -> Iterator[DueRow]:
    return map(DueRow._make, ROW.iter_unpack(data))
