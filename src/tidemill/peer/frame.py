"""The sections of a frame between two brokers.  Byte table: `docs/formats/peer.md`.

A frame carries everything that one turn of the event loop produced for one broker, for all shards.  This module neither
copies nor parses the bytes of messages, requests and responses: encoding keeps them as parts, and decoding returns
views of the received frame.  Sections of unknown kinds and unknown tags in a heartbeat are skipped, so that a feature
can add them without a new protocol version.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.peer.link import Buffer
from tidemill.peer.load import Load, decode_load, encode_load
from tidemill.peer.tagged_fields import TAG, MalformedFrame, tagged, tagged_fields

HEARTBEAT: Final = 1
LEADERS: Final = 2
MESSAGE: Final = 3
REQUEST: Final = 4
RESPONSE: Final = 5
LOAD: Final = 7

DRAINING: Final = 1
"""The sender is draining its leadership: do not transfer leadership to it."""
HAS_CONTROLLER_CONTACT: Final = 2
"""The sender is the controller, or has contact with it."""
HEARS_RECEIVER: Final = 4
"""The sender receives heartbeats from the receiver; a network partition may cut only one direction."""
RECEIVER_IS_STRANGER: Final = 8
"""The sender's metadata has no broker with the receiver's id and directory: it may be new, or it has been removed."""

FRAME_BYTES_MAX: Final = 64 << 20
"""The limit on the total size of a frame's sections; further sections are sent in the next frame."""

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_I64: Final = Struct(">q")
_PAIR: Final = Struct(">QQ")
_LEADER_VERSION: Final = 1
_FLAGS: Final = 2
_LAGGING: Final = 3
_WALL_CLOCK: Final = 4
_UNHEARD: Final = 5
_LEVEL: Final = 6
_MESSAGE: Final = Struct(">BIQ")  # kind, length of the body, and shard id: the start of a section with a Raft message
_REQUEST: Final = Struct(">BII")


@dataclass(slots=True)
class Heartbeat:
    leader_version: int
    """The version of the sender's leader table."""
    flags: int
    """DRAINING, HAS_CONTROLLER_CONTACT, HEARS_RECEIVER, RECEIVER_IS_STRANGER; unknown flags are ignored."""
    lagging: tuple[tuple[ShardId, BrokerId], ...]
    """Out-of-sync replicas of the shards that the sender leads: (shard, broker), ascending."""
    wall_ms: int | None = None
    """The sender's wall clock, in ms since the epoch; None if the sender does not tell it, as older brokers."""
    unheard: tuple[BrokerId, ...] = ()
    """The registered brokers that the sender does not hear, ascending; older brokers do not tell them."""
    level: int = 1
    """The highest feature level that the sender supports; older brokers, which support level 1, do not tell it."""


@dataclass(slots=True)
class Leaders:
    """The changes to the sender's leader table from one version to another; from version 0, the changes are the
    complete table.
    """

    from_version: int
    to_version: int
    terms: tuple[tuple[ShardId, int], ...]
    """Shard and confirmed term; term 0 means that the sender no longer leads the shard."""


@dataclass(slots=True)
class Message:
    """A Raft message to the receiver's replica of a shard (`raft/message_codec`)."""

    shard: ShardId
    data: memoryview


@dataclass(slots=True)
class Request:
    """A request: header and body in Kafka's encoding."""

    correlation: int
    data: memoryview


@dataclass(slots=True)
class Response:
    """The response to the request with this correlation id on the same link."""

    correlation: int
    data: memoryview


Section = Heartbeat | Leaders | Message | Request | Response | Load


def encode_heartbeat(heartbeat: Heartbeat) -> list[Buffer]:
    lagging = b"".join(_PAIR.pack(*pair) for pair in heartbeat.lagging)
    body = (
        tagged(_LEADER_VERSION, _U64.pack(heartbeat.leader_version))
        + tagged(_FLAGS, bytes((heartbeat.flags,)))
        + tagged(_LAGGING, lagging)
    )
    if heartbeat.wall_ms is not None:
        body += tagged(_WALL_CLOCK, _I64.pack(heartbeat.wall_ms))
    if heartbeat.unheard:
        body += tagged(_UNHEARD, b"".join(map(_U32.pack, heartbeat.unheard)))
    if heartbeat.level > 1:
        body += tagged(_LEVEL, _U16.pack(heartbeat.level))
    return [tagged(HEARTBEAT, body)]


def encode_leaders(leaders: Leaders) -> list[Buffer]:
    rows = b"".join(_PAIR.pack(shard, term) for shard, term in leaders.terms)
    body = _PAIR.pack(leaders.from_version, leaders.to_version) + rows
    return [tagged(LEADERS, body)]


def encode_message(shard: ShardId, parts: Sequence[Buffer]) -> list[Buffer]:
    return [_MESSAGE.pack(MESSAGE, _U64.size + _bytes_in(parts), shard), *parts]


def encode_request(correlation: int, parts: Sequence[Buffer]) -> list[Buffer]:
    return [_REQUEST.pack(REQUEST, _U32.size + _bytes_in(parts), correlation), *parts]


def encode_response(correlation: int, parts: Sequence[Buffer]) -> list[Buffer]:
    return [_REQUEST.pack(RESPONSE, _U32.size + _bytes_in(parts), correlation), *parts]


def encode_load_section(load: Load) -> list[Buffer]:
    body = encode_load(load)
    return [TAG.pack(LOAD, len(body)), body]


def sections(frame: memoryview) -> Iterator[Section]:
    """
    Yield the sections of a frame in the order in which they were sent, skipping those of unknown kinds.  Each section
    is checked when the iterator reaches it.  Raises MalformedFrame.
    """
    for kind, body in tagged_fields(frame, "a frame"):
        if HEARTBEAT <= kind <= RESPONSE or kind == LOAD:
            yield _decode(kind, body)


def _decode(kind: int, body: memoryview) -> Section:
    size = len(body)
    if kind == MESSAGE and size >= _U64.size:
        return Message(ShardId(_U64.unpack_from(body)[0]), body[_U64.size :])
    if kind == HEARTBEAT:
        return _decode_heartbeat(body)
    if kind == LOAD:
        return decode_load(body)
    if kind == LEADERS and size >= _PAIR.size and not size % _PAIR.size:
        (from_version, to_version), *terms = _PAIR.iter_unpack(body)
        return Leaders(from_version, to_version, tuple((ShardId(shard), term) for shard, term in terms))
    if kind == REQUEST and size >= _U32.size:
        return Request(_U32.unpack_from(body)[0], body[_U32.size :])
    if kind == RESPONSE and size >= _U32.size:
        return Response(_U32.unpack_from(body)[0], body[_U32.size :])
    raise MalformedFrame(f"a section of kind {kind} cannot have {size} bytes")


def _decode_heartbeat(body: memoryview) -> Heartbeat:
    """Decode a heartbeat.  A field that the sender omitted keeps its default: zero, none, None, or level 1."""
    heartbeat = Heartbeat(0, 0, ())
    for tag, field in tagged_fields(body, "a heartbeat"):
        length = len(field)
        if tag == _LEADER_VERSION and length == _U64.size:
            (heartbeat.leader_version,) = _U64.unpack(field)
        elif tag == _FLAGS and length == 1:
            heartbeat.flags = field[0]
        elif tag == _LAGGING and not length % _PAIR.size:
            heartbeat.lagging = tuple((ShardId(shard), BrokerId(it)) for shard, it in _PAIR.iter_unpack(field))
        elif tag == _WALL_CLOCK and length == _I64.size:
            (heartbeat.wall_ms,) = _I64.unpack(field)
        elif tag == _UNHEARD and not length % _U32.size:
            heartbeat.unheard = tuple(BrokerId(it) for (it,) in _U32.iter_unpack(field))
        elif tag == _LEVEL and length == _U16.size:
            (heartbeat.level,) = _U16.unpack(field)
        elif _LEADER_VERSION <= tag <= _LEVEL:
            raise MalformedFrame(f"field {tag} of a heartbeat cannot have {length} bytes")
    return heartbeat


def _bytes_in(parts: Sequence[Buffer]) -> int:
    return sum(map(len, parts))
