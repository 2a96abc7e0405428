"""The client side of SCRAM (RFC 5802, RFC 7677), with the hash functions that Kafka supports.

    client  n,,n=USER,r=NONCE
    server  r=NONCE AND MORE,s=SALT,i=ITERATIONS
    client  c=biws,r=NONCE AND MORE,p=PROOF         proves that the client knows the password
    server  v=SIGNATURE                             proves that the server knows it, too

The password is used as UTF-8 without SASLprep, although RFC 5802 requires it: Kafka and librdkafka do not apply it
either, so a normalized password would not match the broker's credential.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Final

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4_096  # RFC 7677; with fewer, the password is too easy to guess from the exchanged messages
ITERATIONS_MAX: Final = 1_000_000  # takes a second to compute; Kafka allows 16,384
_HEADER: Final = b"n,,"  # no channel binding, no separate authorization identity


class ScramError(Exception):
    """The server's message is wrong, or the server does not know the password."""


class ScramClient:
    """One login.  Call `first`, then `final` and `check`, each with the server's response to the previous message."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        self._first = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}".encode()
        self._server_signature = b""

    def first(self) -> bytes:
        return _HEADER + self._first

    def final(self, server_first: bytes) -> bytes:
        """Return the message with the proof.  Raise ScramError if the server's first message is not acceptable."""
        values = _attributes(server_first)
        nonce, salt, iterations = values.get("r", ""), _decoded(values.get("s", "")), values.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("the server's nonce does not continue the client's")
        if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise ScramError(f"the server asks for {iterations} iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        if not salt:
            raise ScramError("the server sends no salt")
        without_proof = b"c=" + b64encode(_HEADER) + b",r=" + nonce.encode()
        signed = b",".join((self._first, server_first, without_proof))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, int(iterations))
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return without_proof + b",p=" + b64encode(proof)

    def check(self, server_final: bytes) -> None:
        """Check that the server knows the password.  Raise ScramError."""
        values = _attributes(server_final)
        if "e" in values:
            raise ScramError(f"the server reports {values['e']}")
        if not hmac.compare_digest(_decoded(values.get("v", "")), self._server_signature):
            raise ScramError("the server does not prove that it knows the password: it may be an impostor")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _attributes(message: bytes) -> dict[str, str]:
    """Return the attributes of a server's message.  A mandatory extension (`m=`) is refused, as RFC 5802 requires."""
    try:
        values = {part[0]: part[2:] for part in message.decode().split(",") if part[1] == "="}
    except (ValueError, IndexError):
        raise ScramError("the server's message is malformed") from None
    if "m" in values:
        raise ScramError("the server demands an extension that this client does not know")
    return values


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ScramError("the server's message is malformed") from None
