"""What one frame between two brokers carries: sections, each of a kind.  Byte table: `docs/formats/peer.md`.

A frame is what one turn of the loop has to say to one broker, for all shards.  Bytes of messages, requests and
responses are neither copied nor looked into: they are parts of what is written, and views on what came.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.peer.link import Buffer

HEARTBEAT: Final = 1
LEADERS: Final = 2
MESSAGE: Final = 3
REQUEST: Final = 4
RESPONSE: Final = 5

DRAINING: Final = 1
"""The sender of the heartbeat hands over what it leads, or would: nobody shall hand anything over to it."""
HEARS_CONTROLLER: Final = 2
"""The sender is the controller, or hears it."""
HEARS_YOU: Final = 4
"""The sender hears the broker that it sends this to: a cut may be open in one direction."""

FRAME_BYTES_MAX: Final = 64 << 20
"""Of all sections of one frame; what does not fit is for the next."""

_SECTION: Final = Struct(">BI")  # kind, length of what follows
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_PAIR: Final = Struct(">QQ")
_HEARTBEAT: Final = Struct(">QB")  # version, flags
_MESSAGE: Final = Struct(">BIQ")  # a section's head, and its first field
_REQUEST: Final = Struct(">BII")


class MalformedFrame(ValueError):
    """What came from a peer is no frame; its link is closed."""


@dataclass(slots=True)
class Heartbeat:
    leader_version: int
    """Of the sender's table of what it leads."""
    flags: int
    """LEAVES_OFFICE, HEARS_CONTROLLER, HEARS_YOU; those that are not known here say nothing."""
    lagging: tuple[tuple[ShardId, BrokerId], ...]
    """Replicas that are out of sync, of shards that the sender leads: shard and broker, ascending."""


@dataclass(slots=True)
class Leaders:
    """How the sender's table of what it leads went from one version to another; from 0: the whole table."""

    from_version: int
    to_version: int
    terms: tuple[tuple[ShardId, int], ...]
    """Shard and confirmed term; 0: it leads that shard no more."""


@dataclass(slots=True)
class Message:
    """To the other end's replica of a shard: `raft/message_codec`."""

    shard: ShardId
    data: memoryview


@dataclass(slots=True)
class Request:
    """Kafka's header and body."""

    correlation: int
    data: memoryview


@dataclass(slots=True)
class Response:
    """To the request of this number on this link."""

    correlation: int
    data: memoryview


Section = Heartbeat | Leaders | Message | Request | Response


def encode_heartbeat(heartbeat: Heartbeat) -> list[Buffer]:
    head = _HEARTBEAT.pack(heartbeat.leader_version, heartbeat.flags)
    body = head + b"".join(_PAIR.pack(*pair) for pair in heartbeat.lagging)
    return [_SECTION.pack(HEARTBEAT, len(body)) + body]


def encode_leaders(leaders: Leaders) -> list[Buffer]:
    rows = b"".join(_PAIR.pack(shard, term) for shard, term in leaders.terms)
    body = _PAIR.pack(leaders.from_version, leaders.to_version) + rows
    return [_SECTION.pack(LEADERS, len(body)) + body]


def encode_message(shard: ShardId, parts: Sequence[Buffer]) -> list[Buffer]:
    return [_MESSAGE.pack(MESSAGE, _U64.size + _bytes_in(parts), shard), *parts]


def encode_request(correlation: int, parts: Sequence[Buffer]) -> list[Buffer]:
    return [_REQUEST.pack(REQUEST, _U32.size + _bytes_in(parts), correlation), *parts]


def encode_response(correlation: int, parts: Sequence[Buffer]) -> list[Buffer]:
    return [_REQUEST.pack(RESPONSE, _U32.size + _bytes_in(parts), correlation), *parts]


def sections(frame: memoryview) -> Iterator[Section]:
    """All of a frame, in the order they were sent; each is checked when it is asked for.  MalformedFrame."""
    at = 0
    while at < len(frame):
        if len(frame) - at < _SECTION.size:
            raise MalformedFrame(f"{len(frame) - at} bytes at the end of a frame are no section")
        kind, length = _SECTION.unpack_from(frame, at)
        at += _SECTION.size
        if length > len(frame) - at:
            raise MalformedFrame(f"a section of kind {kind} announces {length} bytes; {len(frame) - at} are left")
        yield _decode(kind, frame[at : at + length])
        at += length


def _decode(kind: int, body: memoryview) -> Section:
    size = len(body)
    if kind == MESSAGE and size >= _U64.size:
        return Message(ShardId(_U64.unpack_from(body)[0]), body[_U64.size :])
    if kind == HEARTBEAT and size >= _HEARTBEAT.size and not (size - _HEARTBEAT.size) % _PAIR.size:
        leader_version, flags = _HEARTBEAT.unpack_from(body)
        lagging = ((ShardId(shard), BrokerId(it)) for shard, it in _PAIR.iter_unpack(body[_HEARTBEAT.size :]))
        return Heartbeat(leader_version, flags, tuple(lagging))
    if kind == LEADERS and size >= _PAIR.size and not size % _PAIR.size:
        (from_version, to_version), *terms = _PAIR.iter_unpack(body)
        return Leaders(from_version, to_version, tuple((ShardId(shard), term) for shard, term in terms))
    if kind == REQUEST and size >= _U32.size:
        return Request(_U32.unpack_from(body)[0], body[_U32.size :])
    if kind == RESPONSE and size >= _U32.size:
        return Response(_U32.unpack_from(body)[0], body[_U32.size :])
    raise MalformedFrame(f"{size} bytes are no section of kind {kind} that is known here")


def _bytes_in(parts: Sequence[Buffer]) -> int:
    return sum(map(len, parts))
