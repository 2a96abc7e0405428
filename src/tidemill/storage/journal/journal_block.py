"""The encoding of a block, which is what one sync writes.  Byte table: `docs/formats/journal.md`."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from tidemill.batches.checksum import crc32c
from tidemill.model.shard import ShardId
from tidemill.raft.entry import Entry
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.disk import Buffer
from tidemill.storage.journal.row import ROW_BYTES, decode_row, encode_row

PAGE_BYTES: Final = 4096
HEADER_BYTES: Final = 64
MAGIC: Final = b"TMJB"
VERSION: Final = 1

_HEADER: Final = Struct(">4sIH2xIQQQQI12x")
_AFTER_CRC: Final = 8
_ZEROS: Final = bytes(PAGE_BYTES)


class BlockHeader(NamedTuple):
    row_count: int
    sequence: int
    synced: int  # the newest sequence known to be synced when this block was written
    table_bytes: int
    payload_bytes: int
    table_crc: int

    @property
    def size_bytes(self) -> int:
        """The size on disk, including the padding."""
        return padded(HEADER_BYTES + self.table_bytes + self.payload_bytes)


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """A complete block, as recovery reads it."""

    header: BlockHeader
    rows: tuple[tuple[ShardId, Entry], ...]


def padded(size: int) -> int:
    """Round `size` up to whole pages."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def encode_block(key: bytes, sequence: int, synced: int, rows: list[tuple[ShardId, Entry]]) -> tuple[list[Buffer], int]:
    """Return the parts of a block for one write, and its size on disk."""
    table = b"".join([encode_row(shard_id, entry) for shard_id, entry in rows])
    parts: list[Buffer] = [b"", table]
    payload_bytes = 0
    for _, entry in rows:
        payload = entry.payload
        if payload:
            parts.append(payload)
            payload_bytes += len(payload)
    header = _HEADER.pack(MAGIC, 0, VERSION, len(rows), sequence, synced, len(table), payload_bytes, crc32c(table))
    crc = crc32c(header[_AFTER_CRC:], crc32c(key))
    parts[0] = header[:4] + crc.to_bytes(4) + header[_AFTER_CRC:]
    used = HEADER_BYTES + len(table) + payload_bytes
    size = padded(used)
    if size != used:
        parts.append(_ZEROS[: size - used])
    return parts, size


def decode_header(key: bytes, data: bytes | memoryview) -> BlockHeader | None:
    """
    Return the block header at the start of `data`; None if `data` does not start with a valid header of this directory.
    Raises DirectoryProblem for an unsupported version.
    """
    if len(data) < HEADER_BYTES or data[:4] != MAGIC:
        return None
    crc = int.from_bytes(data[4:8])
    if crc32c(data[_AFTER_CRC:HEADER_BYTES], crc32c(key)) != crc:
        return None
    _, _, version, row_count, sequence, synced, table_bytes, payload_bytes, table_crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise DirectoryProblem(f"journal block {sequence} has version {version}; this program reads version {VERSION}")
    return BlockHeader(row_count, sequence, synced, table_bytes, payload_bytes, table_crc)


def decode_rows(header: BlockHeader, data: memoryview) -> tuple[tuple[ShardId, Entry], ...] | None:
    """
    Return the rows of the block in `data`; payloads are views of `data`.  None if a length or a CRC does not match.
    """
    table = data[HEADER_BYTES : HEADER_BYTES + header.table_bytes]
    if header.table_bytes != header.row_count * ROW_BYTES or crc32c(table) != header.table_crc:
        return None
    rows = []
    at = HEADER_BYTES + header.table_bytes
    end = at + header.payload_bytes
    for row_index in range(header.row_count):
        shard_id, entry, length, crc = decode_row(table, row_index * ROW_BYTES)
        payload = data[at : at + length]
        at += length
        if at > end or crc32c(payload) != crc:
            return None
        entry.payload = payload
        rows.append((shard_id, entry))
    return tuple(rows) if at == end else None
