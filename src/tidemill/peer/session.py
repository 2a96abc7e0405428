"""One connection between two brokers, without I/O: it converts bytes to frames and back.  See
`docs/formats/peer.md`.

    dialler   Opening: versions, dial number, nonce ─▶
                                     ◀─ Opening: versions, nonce, proof of the cluster key   acceptor
              Hello, sealed ─▶
                                                                       ◀─ Hello, sealed
              frames, sealed ─▶                                        ◀─ frames, sealed

The dialler sends its Hello only after the acceptor has proven that it knows the cluster key.  The acceptor sends its
Hello only after the dialler's first seal has proven the same.

Invariants, and the attacks they prevent:

- The session key is derived from the cluster key and both Openings, each with a fresh nonce.  This prevents replayed
  handshakes and version downgrades.
- A seal is a MAC over direction, kind, a counter and the payload.  This prevents frames from being replayed, dropped,
  reordered, or reflected to their sender.
- An Opening names the role of its sender, and an Opening with this end's own nonce is refused.  This prevents an
  attacker from returning this end's own messages to it as proof that it knows the key.
- A length is checked before memory is allocated: at most 4 KiB until the other end has proven that it knows the key.

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

VERSION_OLDEST: Final = 2  # version 1 had no tags in heartbeats, and no machine sections in snapshot offers
VERSION_NEWEST: Final = 2

MAGIC: Final = b"TIDEPEER"
NONCE_BYTES: Final = 32
HANDSHAKE_BYTES_MAX: Final = 4096
"""The frame size limit until the other end has proven that it knows the key."""

HELLO: Final = 1
FRAME: Final = 2
FAREWELL: Final = 3
FAREWELL_BYTES_MAX: Final = 2048

DIALLER: Final = 1
ACCEPTOR: Final = 2

_LENGTH: Final = Struct(">I")
_OPENING: Final = Struct(">8sHHB3xQ32s")  # magic, oldest and newest version, role, dial number, nonce
_VERSIONS: Final = Struct(">8sHH")  # the start of an Opening, the same in every version
_SEALED: Final = Struct(">BBQ")  # direction, kind, counter: the MAC covers these and the payload
_PROOF_BYTES: Final = 32
_MAC_BYTES: Final = 16
_HEAD_BYTES: Final = 1 + _MAC_BYTES  # the bytes before the payload of a sealed message: kind and MAC

KEY_DIFFERS: Final = "give tidemill.cluster.key the same value on all brokers of the cluster"


class PeerRefused(Exception):
    """The connection must end; the message says why."""


class ReachedItself(PeerRefused):
    """The other end is this process: a broker has dialled an address of its own."""


class PeerLeft(PeerRefused):
    """The other end has closed the connection and sent the reason."""


class Session:
    """One end of a connection.  After PeerRefused, only `farewell` may be called."""

    def __init__(
        self, key: bytes, ours: Hello, nonce: bytes, *, dial: int | None = None, expected: ReplicaKey | None = None
    ) -> None:
        """Create one end of a connection.

        `dial` numbers the dials of one process in ascending order; it is None for the accepting end.  `nonce` is
        NONCE_BYTES of fresh, unpredictable bytes.  If `expected` is given, a broker with another replica key, or with
        none, is refused.
        """
        assert key and len(nonce) == NONCE_BYTES
        self.ours = ours
        self.theirs: Hello | None = None
        """The other end's Hello; once it is set, frames can be sent in both directions."""
        self.is_dialler = dial is not None
        self.dial = dial or 0
        """The dialler's number for this dial; known once the Openings are exchanged."""
        self._expected = expected
        self._key = hashlib.sha256(b"tidemill cluster key\0" + key).digest()
        self._role = DIALLER if self.is_dialler else ACCEPTOR
        self._opening = _OPENING.pack(MAGIC, VERSION_OLDEST, VERSION_NEWEST, self._role, self.dial, nonce)
        self._nonce = nonce
        self._session_key: bytes | None = None
        self._is_proven = False
        """Whether the other end has proven that it knows the key."""
        self._sealed_count = 0
        self._unsealed_count = 0
        self._version_answer: list[Buffer] = []
        self._frames = FrameBuffer(HANDSHAKE_BYTES_MAX, "the peer protocol")

    def opening(self) -> list[Buffer]:
        """Return the first bytes that the dialler sends."""
        assert self.is_dialler
        return [_LENGTH.pack(len(self._opening)) + self._opening]

    def get_buffer(self, hint: int = -1) -> memoryview:
        """Return a buffer for the next received bytes, with room for at least one; raises PeerRefused."""
        try:
            return self._frames.get_buffer(hint)
        except ProtocolError as error:
            raise self._oversize(error) from error

    def received(self, count: int) -> list[Buffer]:
        """Process `count` bytes received into the last buffer, and return the handshake's response, if any.

        Raises PeerRefused.
        """
        self._frames.received(count)
        answers: list[Buffer] = []
        try:
            while self.theirs is None and (frame := next(self._frames.frames(), None)) is not None:
                answers += self._exchange_openings(frame) if self._session_key is None else self._exchange_hellos(frame)
        except ProtocolError as error:
            raise self._oversize(error) from error
        return answers

    def frames(self) -> Iterator[memoryview]:
        """Yield each complete frame once; the receiver owns its memory.  Raises PeerRefused, PeerLeft."""
        if self.theirs is None:
            return
        try:
            for sealed in self._frames.frames():
                kind, frame = self._unseal(sealed)
                if kind != FRAME:
                    raise PeerRefused(f"expected a frame, but received kind {kind}")
                yield frame
        except ProtocolError as error:
            raise self._oversize(error) from error

    def seal(self, parts: Sequence[Buffer]) -> list[Buffer]:
        """Seal one frame without copying its parts.  Frames must be sent in the order in which they were sealed."""
        assert self.theirs is not None, "the handshake is not over"
        return self._seal(FRAME, parts)

    def farewell(self, why: str) -> list[Buffer]:
        """Return the bytes to send before closing.  They contain `why` only if the other end has proven
        that it knows the key.
        """
        if self._is_proven:
            return self._seal(FAREWELL, [why.encode()[:FAREWELL_BYTES_MAX]])
        return self._version_answer

    def _exchange_openings(self, frame: memoryview) -> list[Buffer]:
        self._check_versions(frame)
        if len(frame) != _OPENING.size + _PROOF_BYTES * self.is_dialler:
            raise PeerRefused(f"an Opening of {len(frame)} bytes does not match the protocol version")
        theirs = bytes(frame[: _OPENING.size])
        _, _, _, role, dial, nonce = _OPENING.unpack(theirs)
        if nonce == self._nonce or role == self._role:
            raise PeerRefused(
                "the other end returned this broker's own challenge or role: it is not a broker of this cluster"
            )
        both = self._opening + theirs if self.is_dialler else theirs + self._opening
        proof = self._derive(b"acceptor's proof", both)
        self._session_key = self._derive(b"session", both)
        if not self.is_dialler:
            self.dial = dial
            return [_LENGTH.pack(len(self._opening) + _PROOF_BYTES) + self._opening + proof]
        if not hmac.compare_digest(proof, frame[_OPENING.size :]):
            raise PeerRefused(f"the other end does not know this broker's cluster key: {KEY_DIFFERS}")
        self._is_proven = True
        return self._seal(HELLO, [encode_hello(self.ours)])

    def _check_versions(self, frame: memoryview) -> None:
        """Check the start of an Opening, which is the same in every version."""
        if len(frame) < _VERSIONS.size or bytes(frame[: len(MAGIC)]) != MAGIC:
            raise PeerRefused(
                "the other end does not speak the peer protocol: only brokers may connect to tidemill.peer.listener"
            )
        _, oldest, newest = _VERSIONS.unpack_from(frame)
        if not oldest <= VERSION_NEWEST or not newest >= VERSION_OLDEST:
            if not self.is_dialler:  # answer before refusing, so that the dialler learns this end's versions
                self._version_answer = [
                    _LENGTH.pack(len(self._opening) + _PROOF_BYTES) + self._opening + bytes(_PROOF_BYTES)
                ]
            raise PeerRefused(
                f"the other end supports versions {oldest} to {newest} of the peer protocol, this broker "
                f"{VERSION_OLDEST} to {VERSION_NEWEST}: upgrade the broker with the older ones"
            )

    def _exchange_hellos(self, sealed: memoryview) -> list[Buffer]:
        kind, data = self._unseal(sealed)
        if kind != HELLO:
            raise PeerRefused(f"expected a Hello, but received kind {kind}")
        self._is_proven = True
        try:
            theirs = decode_hello(data)
        except MalformedHello as error:
            raise PeerRefused(f"malformed Hello: {error}") from error
        if theirs.incarnation == self.ours.incarnation:
            raise ReachedItself(f"{theirs.address} is this broker itself: set the addresses of other brokers")
        refusal = _refusal(self.ours, theirs, self._expected)
        if refusal is not None:
            raise PeerRefused(refusal)
        answers = [] if self.is_dialler else self._seal(HELLO, [encode_hello(self.ours)])
        self.theirs = theirs
        self._frames.frame_bytes_max = _HEAD_BYTES + FRAME_BYTES_MAX
        return answers

    def _seal(self, kind: int, parts: Sequence[Buffer]) -> list[Buffer]:
        size = sum(map(len, parts))
        assert size <= FRAME_BYTES_MAX, f"frame of {size} bytes; the limit is {FRAME_BYTES_MAX}"
        mac = self._start_mac(self._role, kind, self._sealed_count)
        for part in parts:
            mac.update(part)
        self._sealed_count += 1
        return [b"%b%c%b" % (_LENGTH.pack(_HEAD_BYTES + size), kind, mac.digest(length=_MAC_BYTES)), *parts]

    def _unseal(self, sealed: memoryview) -> tuple[int, memoryview]:
        """
        Return the kind and the payload of a sealed message.  Raises PeerRefused, or PeerLeft if the message says that
        the other end closes the connection.
        """
        if len(sealed) < _HEAD_BYTES:
            raise PeerRefused(f"{len(sealed)} bytes are too few for a frame")
        kind, data = sealed[0], sealed[_HEAD_BYTES:]
        mac = self._start_mac(DIALLER + ACCEPTOR - self._role, kind, self._unsealed_count)
        mac.update(data)
        if not hmac.compare_digest(mac.digest(length=_MAC_BYTES), sealed[1:_HEAD_BYTES]):
            if not self._is_proven:
                raise PeerRefused(f"the other end does not know this broker's cluster key: {KEY_DIFFERS}")
            raise PeerRefused("a frame is out of sequence: it was damaged, or not sent by the other end")
        self._unsealed_count += 1
        if kind == FAREWELL:
            raise PeerLeft(f"the other end closed it: {bytes(data).decode(errors='replace')}")
        return kind, data

    def _start_mac(self, direction: int, kind: int, count: int) -> blake3:
        """Return a BLAKE3 hash over the arguments, keyed with the session key (decision 16)."""
        assert self._session_key is not None
        return blake3(_SEALED.pack(direction, kind, count), key=self._session_key)

    def _derive(self, purpose: bytes, openings: bytes) -> bytes:
        return hmac.digest(self._key, b"tidemill peer " + purpose + b"\0" + openings, "sha256")

    def _oversize(self, error: ProtocolError) -> PeerRefused:
        hint = "" if self._is_proven else "; only brokers may connect to tidemill.peer.listener"
        return PeerRefused(f"{error}{hint}")


def _refusal(ours: Hello, theirs: Hello, expected: ReplicaKey | None) -> str | None:
    """Return why a broker is refused although it knows the cluster key; None if it is accepted."""
    if theirs.cluster_id and ours.cluster_id and theirs.cluster_id != ours.cluster_id:
        return (
            f"{theirs.address} belongs to cluster {theirs.cluster_id!r}, but {ours.address} to {ours.cluster_id!r}: "
            "set addresses of one cluster only, and give each cluster its own tidemill.cluster.key"
        )
    if expected is not None and theirs.voter != expected:
        return (
            f"{theirs.address} is {_named(theirs.voter)}, but {_named(expected)} was expected there: correct the "
            "address, or start that broker on its own data directory"
        )
    if theirs.voter is not None and ours.voter is not None and theirs.voter.broker_id == ours.voter.broker_id:
        return (
            f"{theirs.address} is {_named(theirs.voter)}, and {ours.address} is {_named(ours.voter)}: both have "
            "the same id; give each broker its own data directory and its own node.id"
        )
    return None


def _named(voter: ReplicaKey | None) -> str:
    return f"broker {voter.broker_id} on directory {voter.directory_id.hex()}" if voter else "a broker without an id"
