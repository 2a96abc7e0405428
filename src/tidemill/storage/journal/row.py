"""A row of the journal: an entry of a shard's log, or a control row.  Byte table: `docs/formats/journal.md`."""

from enum import IntEnum
from struct import Struct
from typing import Final

from tidemill.model.shard import ShardId
from tidemill.raft.entry import Entry, Kind

_ROW: Final = Struct(">QQQB3xIqIIqIIq8x")
ROW_BYTES: Final = _ROW.size  # 80
_pack = _ROW.pack


class RowKind(IntEnum):
    """Kinds of control rows.  Rows that hold an entry have the entry's kind (`raft.entry.Kind`)."""

    VOTE = 16
    TRUNCATE = 17
    OPENED = 18
    CLOSED = 19
    TRIMMED = 20
    INSTALLING = 21
    INSTALLED = 22
    PART = 23
    DAMAGED = 24


_NAMES: Final = {int(kind): kind.name for kinds in (Kind, RowKind) for kind in kinds}


def kind_name(kind: int) -> str:
    """Return the name of a row's kind, or "kind" and its number if this version does not know it."""
    return _NAMES.get(kind, f"kind {kind}")


def encode_row(shard_id: ShardId, entry: Entry) -> bytes:
    """Return the fixed part of a row.  The payload is written separately, without a copy."""
    payload = entry.payload
    assert payload is not None, f"{entry} has lost its bytes before it was written"
    return _encode(shard_id, entry, len(payload), entry.checksum())


def encode_bare_row(shard_id: ShardId, entry: Entry) -> bytes:
    """
    Return the fixed part of a batch's row, without a payload: the bytes are in the segment that the row refers to.
    """
    return _encode(shard_id, entry, 0, 0)


def _encode(shard_id: ShardId, entry: Entry, length: int, crc: int) -> bytes:
    return _pack(
        shard_id,
        entry.index,
        entry.term,
        entry.kind,
        entry.partition,
        entry.base_offset,
        entry.record_count,
        length,
        entry.append_time,
        crc,
        entry.position,
        entry.segment_base,
    )


def decode_row(table: bytes | memoryview, at: int) -> tuple[ShardId, Entry, int, int]:
    """
    Decode the fixed part at byte `at`.  Return the shard, the entry without its payload, and the payload's length and
    CRC.
    """
    (shard, index, term, kind, partition, base_offset, count, length, append_time, crc, position, segment_base) = (
        _ROW.unpack_from(table, at)
    )
    entry = Entry(
        kind,
        None,
        partition=partition,
        base_offset=base_offset,
        record_count=count,
        append_time=append_time,
        index=index,
        term=term,
    )
    entry.payload_bytes = length
    entry.position = position
    entry.segment_base = segment_base
    entry.crc = crc if length else None
    return ShardId(shard), entry, length, crc
