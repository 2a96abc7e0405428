"""One connection between two brokers, sans-io: bytes in → frames; frames → buffers.  Bytes: `docs/formats/peer.md`.

    dialler   Opening: versions, dial number, nonce ─▶
                                     ◀─ Opening: versions, nonce, proof of the cluster key   acceptor
              Hello, sealed ─▶
                                                                       ◀─ Hello, sealed
              frames, sealed ─▶                                        ◀─ frames, sealed

Who dials sends its Hello only to one that has proven the key, and is answered only when its own seal has proven it.

What must hold, and what would happen else:

- The session's key comes from the cluster's key and both Openings, each with a nonce of its own: a replayed handshake
  would be taken for a live one, and versions could be talked down.
- A seal is a MAC over direction, kind, a counter and the bytes: a frame could be replayed, left out, exchanged with
  another, or sent back to where it came from.
- An Opening says which end wrote it, and our own nonce is refused: we would prove the key to ourselves.
- A length is checked before anything is allocated: 4 KiB until the other end is proven.

Nothing is encrypted.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from blake3 import blake3

from tidemill.model.broker_id import ReplicaKey
from tidemill.peer.frame import FRAME_BYTES_MAX
from tidemill.peer.hello import Hello, MalformedHello, decode_hello, encode_hello
from tidemill.peer.link import Buffer
from tidemill.wire.frame import FrameBuffer
from tidemill.wire.primitives import ProtocolError

VERSION_OLDEST: Final = 1
VERSION_NEWEST: Final = 1

MAGIC: Final = b"TIDEPEER"
NONCE_BYTES: Final = 32
HANDSHAKE_BYTES_MAX: Final = 4096
"""Of one frame, until the other end has proven the key."""

HELLO: Final = 1
FRAME: Final = 2
FAREWELL: Final = 3
FAREWELL_BYTES_MAX: Final = 2048

DIALLER: Final = 1
ACCEPTOR: Final = 2

_LENGTH: Final = Struct(">I")
_OPENING: Final = Struct(">8sHHB3xQ32s")  # magic, oldest and newest version, role, dial number, nonce
_VERSIONS: Final = Struct(">8sHH")  # how the Opening of any version begins
_SEALED: Final = Struct(">BBQ")  # direction, kind, counter: what a MAC covers in front of the bytes
_PROOF_BYTES: Final = 32
_MAC_BYTES: Final = 16
_HEAD_BYTES: Final = 1 + _MAC_BYTES  # kind and MAC

KEY_DIFFERS: Final = "give tidemill.cluster.key the same value on all brokers of the cluster"


class PeerRefused(Exception):
    """Why this connection is at an end, as a sentence."""


class PeerLeft(PeerRefused):
    """The other end has closed it, and said why."""


class Session:
    """One end.  After PeerRefused nothing but `last_words` may be asked of it."""

    def __init__(
        self, key: bytes, ours: Hello, nonce: bytes, *, dial: int | None = None, expected: ReplicaKey | None = None
    ) -> None:
        """`dial` numbers the dials of one process, ascending; None: this end has accepted.

        `nonce` is NONCE_BYTES that nobody can guess, never used before.  `expected` refuses every other voter.
        """
        assert key and len(nonce) == NONCE_BYTES
        self.ours = ours
        self.theirs: Hello | None = None
        """The other end's Hello: from then on frames go both ways."""
        self.is_dialler = dial is not None
        self.dial = dial or 0
        """The dialler's number, as soon as Openings were exchanged."""
        self._expected = expected
        self._key = hashlib.sha256(b"tidemill cluster key\0" + key).digest()
        self._role = DIALLER if self.is_dialler else ACCEPTOR
        self._opening = _OPENING.pack(MAGIC, VERSION_OLDEST, VERSION_NEWEST, self._role, self.dial, nonce)
        self._nonce = nonce
        self._session_key: bytes | None = None
        self._is_proven = False
        """The other end has shown that it knows the key."""
        self._sent = 0
        self._taken = 0
        self._unanswered: list[Buffer] = []
        self._frames = FrameBuffer(HANDSHAKE_BYTES_MAX, "the peer protocol")

    def opening(self) -> list[Buffer]:
        """What the dialler sends first."""
        assert self.is_dialler
        return [_LENGTH.pack(len(self._opening)) + self._opening]

    def get_buffer(self, hint: int = -1) -> memoryview:
        """Where the next bytes shall be received; never empty.  PeerRefused."""
        try:
            return self._frames.get_buffer(hint)
        except ProtocolError as error:
            raise self._oversize(error) from error

    def received(self, count: int) -> list[Buffer]:
        """So many bytes are in the buffer that was got last.  What the handshake answers to them.  PeerRefused."""
        self._frames.received(count)
        answers: list[Buffer] = []
        try:
            while self.theirs is None and (frame := next(self._frames.frames(), None)) is not None:
                answers += self._exchange_openings(frame) if self._session_key is None else self._exchange_hellos(frame)
        except ProtocolError as error:
            raise self._oversize(error) from error
        return answers

    def frames(self) -> Iterator[memoryview]:
        """Every complete frame, once; its memory is the receiver's for good.  PeerRefused, PeerLeft."""
        if self.theirs is None:
            return
        try:
            for sealed in self._frames.frames():
                kind, frame = self._unseal(sealed)
                if kind != FRAME:
                    raise PeerRefused(f"something of kind {kind} came among the frames")
                yield frame
        except ProtocolError as error:
            raise self._oversize(error) from error

    def seal(self, parts: Sequence[Buffer]) -> list[Buffer]:
        """One frame, its parts uncopied.  Frames must be sent in the order in which they were sealed."""
        assert self.theirs is not None, "the handshake is not over"
        return self._seal(FRAME, parts)

    def last_words(self, why: str) -> list[Buffer]:
        """What may be sent before closing.  Only one that knows the key is told why."""
        if self._is_proven:
            return self._seal(FAREWELL, [why.encode()[:FAREWELL_BYTES_MAX]])
        return self._unanswered

    def _exchange_openings(self, frame: memoryview) -> list[Buffer]:
        self._check_versions(frame)
        if len(frame) != _OPENING.size + _PROOF_BYTES * self.is_dialler:
            raise PeerRefused(f"{len(frame)} bytes are no Opening of this version")
        theirs = bytes(frame[: _OPENING.size])
        _, _, _, role, dial, nonce = _OPENING.unpack(theirs)
        if nonce == self._nonce or role == self._role:
            raise PeerRefused("it sends our own challenge back, or takes our part: it is no broker of this cluster")
        both = self._opening + theirs if self.is_dialler else theirs + self._opening
        proof = self._derive(b"acceptor's proof", both)
        self._session_key = self._derive(b"session", both)
        if not self.is_dialler:
            self.dial = dial
            return [_LENGTH.pack(len(self._opening) + _PROOF_BYTES) + self._opening + proof]
        if not hmac.compare_digest(proof, frame[_OPENING.size :]):
            raise PeerRefused(f"it does not know this broker's cluster key: {KEY_DIFFERS}")
        self._is_proven = True
        return self._seal(HELLO, [encode_hello(self.ours)])

    def _check_versions(self, frame: memoryview) -> None:
        """How an Opening begins will never change."""
        if len(frame) < _VERSIONS.size or bytes(frame[: len(MAGIC)]) != MAGIC:
            raise PeerRefused("it does not speak the peer protocol: only brokers connect to tidemill.peer.listener")
        _, oldest, newest = _VERSIONS.unpack_from(frame)
        if not oldest <= VERSION_NEWEST or not newest >= VERSION_OLDEST:
            if not self.is_dialler:  # else the dialler would not learn of our versions
                self._unanswered = [
                    _LENGTH.pack(len(self._opening) + _PROOF_BYTES) + self._opening + bytes(_PROOF_BYTES)
                ]
            raise PeerRefused(
                f"it speaks versions {oldest} to {newest} of the peer protocol, this broker {VERSION_OLDEST} to "
                f"{VERSION_NEWEST}: upgrade the older of the two"
            )

    def _exchange_hellos(self, sealed: memoryview) -> list[Buffer]:
        kind, data = self._unseal(sealed)
        if kind != HELLO:
            raise PeerRefused(f"a frame of kind {kind} came before its Hello")
        self._is_proven = True
        try:
            theirs = decode_hello(data)
        except MalformedHello as error:
            raise PeerRefused(f"its Hello is malformed: {error}") from error
        refusal = _refusal(self.ours, theirs, self._expected)
        if refusal is not None:
            raise PeerRefused(refusal)
        answers = [] if self.is_dialler else self._seal(HELLO, [encode_hello(self.ours)])
        self.theirs = theirs
        self._frames.frame_bytes_max = _HEAD_BYTES + FRAME_BYTES_MAX
        return answers

    def _seal(self, kind: int, parts: Sequence[Buffer]) -> list[Buffer]:
        size = sum(map(len, parts))
        assert size <= FRAME_BYTES_MAX, f"a frame of {size} bytes; at most {FRAME_BYTES_MAX} can be received"
        mac = self._start_mac(self._role, kind, self._sent)
        for part in parts:
            mac.update(part)
        self._sent += 1
        return [b"%b%c%b" % (_LENGTH.pack(_HEAD_BYTES + size), kind, mac.digest(length=_MAC_BYTES)), *parts]

    def _unseal(self, sealed: memoryview) -> tuple[int, memoryview]:
        """Kind and bytes.  PeerRefused; PeerLeft of a farewell."""
        if len(sealed) < _HEAD_BYTES:
            raise PeerRefused(f"{len(sealed)} bytes are too few for a frame")
        kind, data = sealed[0], sealed[_HEAD_BYTES:]
        mac = self._start_mac(DIALLER + ACCEPTOR - self._role, kind, self._taken)
        mac.update(data)
        if not hmac.compare_digest(mac.digest(length=_MAC_BYTES), sealed[1:_HEAD_BYTES]):
            if not self._is_proven:
                raise PeerRefused(f"it does not know this broker's cluster key: {KEY_DIFFERS}")
            raise PeerRefused("a frame is not the next one that was sent: it was damaged, or somebody else sent it")
        self._taken += 1
        if kind == FAREWELL:
            raise PeerLeft(f"the other end closed it: {bytes(data).decode(errors='replace')}")
        return kind, data

    def _start_mac(self, direction: int, kind: int, count: int) -> blake3:
        """Keyed BLAKE3: two to three times as fast as HMAC-SHA256, whatever the size."""
        assert self._session_key is not None
        return blake3(_SEALED.pack(direction, kind, count), key=self._session_key)

    def _derive(self, purpose: bytes, openings: bytes) -> bytes:
        return hmac.digest(self._key, b"tidemill peer " + purpose + b"\0" + openings, "sha256")

    def _oversize(self, error: ProtocolError) -> PeerRefused:
        hint = "" if self._is_proven else "; only brokers connect to tidemill.peer.listener"
        return PeerRefused(f"{error}{hint}")


def _refusal(ours: Hello, theirs: Hello, expected: ReplicaKey | None) -> str | None:
    """Why a broker that knows the cluster's key is refused nevertheless."""
    if theirs.incarnation == ours.incarnation:
        return f"{theirs.address} is this broker itself: name the addresses of other brokers"
    if theirs.cluster_id and ours.cluster_id and theirs.cluster_id != ours.cluster_id:
        return (
            f"{theirs.address} belongs to cluster {theirs.cluster_id!r}, and {ours.address} to {ours.cluster_id!r}: "
            "name addresses of one cluster only, and give each cluster a tidemill.cluster.key of its own"
        )
    if expected is not None and theirs.voter != expected:
        return (
            f"{theirs.address} is {_named(theirs.voter)}, and {_named(expected)} was expected there: correct the "
            "address, or start that broker on its own data directory"
        )
    if theirs.voter is not None and ours.voter is not None and theirs.voter.broker_id == ours.voter.broker_id:
        return (
            f"{theirs.address} is {_named(theirs.voter)}, and {ours.address} is {_named(ours.voter)}: two brokers "
            "have one id; give each its own data directory and its own node.id"
        )
    return None


def _named(voter: ReplicaKey | None) -> str:
    return f"broker {voter.broker_id} on directory {voter.directory_id.hex()}" if voter else "a broker without an id"
