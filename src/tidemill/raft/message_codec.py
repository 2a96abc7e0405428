"""The wire format of Raft messages.  Byte table: `docs/formats/peer.md`.

Batches are neither copied nor decoded: an encoded message refers to them, and a decoded one holds views of its frame.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from tidemill.batches.checksum import crc32c
from tidemill.raft.entry import BATCH, COMMAND, Buffer, Entry
from tidemill.raft.messages import (
    AppendEntries,
    AppendEntriesResponse,
    Damaged,
    Message,
    Released,
    ReleaseRequest,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotPull,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tidemill.raft.voters import Membership

VOTE_REQUEST: Final = 1
VOTE_RESPONSE: Final = 2
APPEND_ENTRIES: Final = 3
APPEND_ENTRIES_RESPONSE: Final = 4
TIMEOUT_NOW: Final = 5
SNAPSHOT_OFFER: Final = 6
SNAPSHOT_PULL: Final = 7
SNAPSHOT_CHUNK: Final = 8
DAMAGED: Final = 9
RELEASED: Final = 11
RELEASE_REQUEST: Final = 12

PRE: Final = 1
TRANSFER: Final = 2
GRANTED: Final = 4
INSTALLING: Final = 8

_HEAD: Final = Struct(">BB2xIQ")  # kind, flags, number of entries, term
_VOTE_REQUEST: Final = Struct(">QQ")
_APPEND: Final = Struct(">QQQQ")
_APPEND_ANSWER: Final = Struct(">QQQQQQ")
_OFFER: Final = Struct(">QQqII")  # index, its term, append time, length of the membership, CRC of membership and state
_PULL: Final = Struct(">QIq")
_RELEASED: Final = Struct(">Q")
_ENTRY: Final = Struct(">QQB3xIqIIqI")
_BODY_BYTES: Final = {
    VOTE_REQUEST: _VOTE_REQUEST.size,
    VOTE_RESPONSE: 0,
    APPEND_ENTRIES: _APPEND.size,
    APPEND_ENTRIES_RESPONSE: _APPEND_ANSWER.size,
    TIMEOUT_NOW: 0,
    SNAPSHOT_OFFER: _OFFER.size,
    SNAPSHOT_PULL: _PULL.size,
    SNAPSHOT_CHUNK: _PULL.size,
    DAMAGED: _VOTE_REQUEST.size,
    RELEASED: _RELEASED.size,
    RELEASE_REQUEST: 0,
}
_OPEN_ENDED: Final = (APPEND_ENTRIES, SNAPSHOT_OFFER, SNAPSHOT_CHUNK)


class MalformedMessage(ValueError):
    """
    The bytes from a peer are not a valid message, or were corrupted in transit.  The connection to the peer is closed.
    """


def encode(message: Message) -> list[Buffer]:
    """Return the parts of an encoded message; each payload is a separate part.  Every entry must have its payload."""
    match message:
        case AppendEntries():
            return _encode_append(message)
        case AppendEntriesResponse():
            body = _APPEND_ANSWER.pack(
                message.serial,
                message.match_index,
                message.commit_index,
                message.rejected_index,
                message.hint_index,
                message.hint_term,
            )
            return [_HEAD.pack(APPEND_ENTRIES_RESPONSE, INSTALLING * message.is_installing, 0, message.term) + body]
        case VoteRequest():
            flags = PRE * message.is_pre | TRANSFER * message.is_transfer
            body = _VOTE_REQUEST.pack(message.last_index, message.last_term)
            return [_HEAD.pack(VOTE_REQUEST, flags, 0, message.term) + body]
        case VoteResponse():
            flags = PRE * message.is_pre | GRANTED * message.is_granted
            return [_HEAD.pack(VOTE_RESPONSE, flags, 0, message.term)]
        case TimeoutNow():
            return [_HEAD.pack(TIMEOUT_NOW, 0, 0, message.term)]
        case Damaged():
            body = _VOTE_REQUEST.pack(message.last_index, message.last_term)
            return [_HEAD.pack(DAMAGED, 0, 0, message.term) + body]
        case ReleaseRequest():
            return [_HEAD.pack(RELEASE_REQUEST, 0, 0, message.term)]
        case Released():
            return [_HEAD.pack(RELEASED, 0, 0, message.term) + _RELEASED.pack(message.index)]
        case SnapshotOffer():
            members = message.membership.encode()
            crc = crc32c(message.state, crc32c(members))
            body = _OFFER.pack(message.index, message.index_term, message.append_time, len(members), crc)
            return [_HEAD.pack(SNAPSHOT_OFFER, 0, 0, message.term) + body + members, message.state]
        case SnapshotPull():
            body = _PULL.pack(message.index, message.partition, message.offset)
            return [_HEAD.pack(SNAPSHOT_PULL, 0, 0, message.term) + body]
        case SnapshotChunk():
            body = _PULL.pack(message.index, message.partition, message.offset)
            return [_HEAD.pack(SNAPSHOT_CHUNK, 0, 0, message.term) + body, *message.payload]


def _encode_append(append: AppendEntries) -> list[Buffer]:
    """Encode the head and the fixed fields of all entries first, then the payloads."""
    head = bytearray(_HEAD.pack(APPEND_ENTRIES, 0, len(append.entries), append.term))
    head += _APPEND.pack(append.prev_index, append.prev_term, append.commit_index, append.serial)
    parts: list[Buffer] = [head]
    for entry in append.entries:
        payload = entry.payload
        assert payload is not None, f"{entry} is sent without its bytes"
        head += _ENTRY.pack(
            entry.index,
            entry.term,
            entry.kind,
            entry.partition,
            entry.base_offset,
            entry.record_count,
            len(payload),
            entry.append_time,
            entry.checksum(),
        )
        if payload:
            parts.append(payload)
    return parts


def decode(data: memoryview) -> Message:
    """Return the message that fills `data`; its entries hold views of `data`.  Raises MalformedMessage."""
    if len(data) < _HEAD.size:
        raise MalformedMessage(f"{len(data)} bytes are no message")
    kind, flags, entry_count, term = _HEAD.unpack_from(data)
    body_bytes = _BODY_BYTES.get(kind)
    if body_bytes is None:
        raise MalformedMessage(f"unknown message kind {kind}")
    at = _HEAD.size + body_bytes
    if len(data) < at or (kind not in _OPEN_ENDED and len(data) != at):
        raise MalformedMessage(f"a message of kind {kind} has {at} bytes, not {len(data)}")
    if kind != APPEND_ENTRIES and entry_count:
        raise MalformedMessage(f"a message of kind {kind} has no entries, not {entry_count}")
    if len(data) < at + entry_count * _ENTRY.size:
        raise MalformedMessage(f"{entry_count} entries do not fit into {len(data)} bytes")
    if kind == VOTE_REQUEST:
        last_index, last_term = _VOTE_REQUEST.unpack_from(data, _HEAD.size)
        return VoteRequest(
            term=term,
            last_index=last_index,
            last_term=last_term,
            is_pre=bool(flags & PRE),
            is_transfer=bool(flags & TRANSFER),
        )
    if kind == VOTE_RESPONSE:
        return VoteResponse(term=term, is_granted=bool(flags & GRANTED), is_pre=bool(flags & PRE))
    if kind == TIMEOUT_NOW:
        return TimeoutNow(term=term)
    if kind == DAMAGED:
        last_index, last_term = _VOTE_REQUEST.unpack_from(data, _HEAD.size)
        return Damaged(term=term, last_index=last_index, last_term=last_term)
    if kind == RELEASE_REQUEST:
        return ReleaseRequest(term=term)
    if kind == RELEASED:
        return Released(term=term, index=_RELEASED.unpack_from(data, _HEAD.size)[0])
    if kind == APPEND_ENTRIES_RESPONSE:
        serial, match_index, commit_index, rejected_index, hint_index, hint_term = _APPEND_ANSWER.unpack_from(
            data, _HEAD.size
        )
        return AppendEntriesResponse(
            term=term,
            serial=serial,
            match_index=match_index,
            commit_index=commit_index,
            rejected_index=rejected_index,
            hint_index=hint_index,
            hint_term=hint_term,
            is_installing=bool(flags & INSTALLING),
        )
    if kind == SNAPSHOT_OFFER:
        return _decode_offer(data, term)
    if kind in (SNAPSHOT_PULL, SNAPSHOT_CHUNK):
        index, partition, offset = _PULL.unpack_from(data, _HEAD.size)
        if kind == SNAPSHOT_PULL:
            return SnapshotPull(term=term, index=index, partition=partition, offset=offset)
        return SnapshotChunk(term=term, index=index, partition=partition, offset=offset, payload=(data[at:],))
    prev_index, prev_term, commit_index, serial = _APPEND.unpack_from(data, _HEAD.size)
    entries = tuple(_entries(data, at, entry_count, prev_index))
    if commit_index > prev_index + entry_count:
        raise MalformedMessage(f"commit index {commit_index} is beyond the {entry_count} entries after {prev_index}")
    return AppendEntries(
        term=term,
        prev_index=prev_index,
        prev_term=prev_term,
        entries=entries,
        commit_index=commit_index,
        serial=serial,
    )


def _decode_offer(data: memoryview, term: int) -> SnapshotOffer:
    index, index_term, append_time, members_bytes, crc = _OFFER.unpack_from(data, _HEAD.size)
    at = _HEAD.size + _OFFER.size
    if crc32c(data[at:]) != crc or len(data) < at + members_bytes:
        raise MalformedMessage(f"the snapshot at {index} does not match its CRC")
    return SnapshotOffer(
        term=term,
        index=index,
        index_term=index_term,
        append_time=append_time,
        membership=Membership.decode(data[at : at + members_bytes]),
        state=data[at + members_bytes :],
    )


def _entries(data: memoryview, table_at: int, count: int, prev_index: int) -> Iterator[Entry]:
    at = table_at + count * _ENTRY.size
    for number in range(count):
        index, term, kind, partition, base_offset, record_count, length, append_time, crc = _ENTRY.unpack_from(
            data, table_at + number * _ENTRY.size
        )
        payload = data[at : at + length]
        at += length
        if index != prev_index + 1 + number or not BATCH <= kind <= COMMAND:
            raise MalformedMessage(f"entry {index} of kind {kind} cannot be number {number} after {prev_index}")
        if len(payload) != length or crc32c(payload) != crc:
            raise MalformedMessage(f"entry {index} does not match its CRC")
        entry = Entry(
            kind,
            payload,
            partition=partition,
            base_offset=base_offset,
            record_count=record_count,
            append_time=append_time,
            index=index,
            term=term,
        )
        entry.crc = crc
        yield entry
    if at != len(data):
        raise MalformedMessage(f"{len(data) - at} bytes follow the last entry")
