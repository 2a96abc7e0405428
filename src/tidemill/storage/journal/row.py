"""A row: an entry, or a fact about a shard, as the journal holds it.  Byte table: `docs/formats/journal.md`."""

from struct import Struct
from typing import Final

from tidemill.model.shard import ShardId
from tidemill.raft.entry import Entry

_ROW: Final = Struct(">QQQB3xIqIIqIIq8x")
ROW_BYTES: Final = _ROW.size  # 80
_pack = _ROW.pack


def encode_row(shard_id: ShardId, entry: Entry) -> bytes:
    """The fixed part; the payload travels beside it, untouched."""
    payload = entry.payload
    assert payload is not None, f"{entry} has lost its bytes before it was written"
    return _encode(shard_id, entry, len(payload), entry.checksum())


def encode_bare_row(shard_id: ShardId, entry: Entry) -> bytes:
    """Its bytes lie in the segment; the row says where."""
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


class RowProblem(ValueError):
    """The bytes of a row are not what its CRC says."""


def decode_row(table: bytes | memoryview, at: int) -> tuple[ShardId, Entry, int, int]:
    """The row whose fixed part begins at `at`: shard, entry without payload, payload length, payload CRC."""
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
