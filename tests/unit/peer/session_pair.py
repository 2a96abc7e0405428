"""Two sessions in memory, with full control over the bytes between them."""

from collections.abc import Iterable, Sequence
from typing import Any

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.peer.hello import Hello
from tidemill.peer.link import Buffer
from tidemill.peer.session import Session

KEY = b"a key of the whole cluster"
DIALLERS_NONCE = bytes(range(32))
ACCEPTORS_NONCE = bytes(range(100, 132))


def hello(number: int, **changed: Any) -> Hello:
    fields = {
        "cluster_id": "estuary",
        "voter": ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)),
        "incarnation": (1 << 62) + number,
        "address": f"broker-{number}:9094",
    }
    return Hello(**(fields | changed))


def dialler(key: bytes = KEY, nonce: bytes = DIALLERS_NONCE, **changed: Any) -> Session:
    expected = changed.pop("expected", None)
    return Session(key, hello(1, **changed), nonce, dial=7, expected=expected)


def acceptor(key: bytes = KEY, nonce: bytes = ACCEPTORS_NONCE, **changed: Any) -> Session:
    return Session(key, hello(2, **changed), nonce)


def joined(parts: Iterable[Buffer]) -> bytes:
    return b"".join(map(bytes, parts))


def feed(session: Session, data: bytes, pieces: Sequence[int] = (1 << 20,)) -> tuple[bytes, list[bytes]]:
    """
    Feed `data` to the session in pieces of the given sizes, which are repeated as needed.  Return the bytes that the
    session sends in response and the frames that it delivers.
    """
    answers, frames = b"", []
    position = turn = 0
    while position < len(data):
        room = session.get_buffer()
        piece = data[position : position + min(len(room), pieces[turn % len(pieces)])]
        room[: len(piece)] = piece
        answers += joined(session.received(len(piece)))
        frames += map(bytes, session.frames())
        position += len(piece)
        turn += 1
    return answers, frames


def handshake(one: Session, other: Session) -> list[bytes]:
    """Run a handshake, and return the alternating messages of both ends."""
    said = [joined(one.opening())]
    listener, speaker = other, one
    while said[-1]:
        said.append(feed(listener, said[-1])[0])
        listener, speaker = speaker, listener
    return said[:-1]


def linked() -> tuple[Session, Session]:
    one, other = dialler(), acceptor()
    handshake(one, other)
    return one, other
