"""The broker's side of SASL for fake brokers; it shares no code with the client."""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field

from tidemill.model import errors
from tidemill.wire.messages import sasl_authenticate, sasl_handshake
from tidemill.wire.schema import Message

SASL_APIS = {api.key: api for api in (sasl_handshake.API, sasl_authenticate.API)}
SALT, ITERATIONS = b"salt of a broker", 4_096


@dataclass
class FakeSasl:
    """What a listener accepts, and the logins it has seen."""

    mechanisms: tuple[str, ...]
    passwords: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    lifetime_ms: int = 0
    is_impostor: bool = False  # accepts every proof, without knowing a password
    logins: list[str] = field(default_factory=list)  # user names, or tokens
    extensions: list[str] = field(default_factory=list)  # the extensions of OAUTHBEARER logins

    def session(self) -> "FakeSaslSession":
        return FakeSaslSession(self)


class FakeSaslSession:
    """The logins of one connection."""

    def __init__(self, sasl: FakeSasl) -> None:
        self.is_logged_in = False
        self._sasl = sasl
        self._mechanism = ""
        self._messages: list[bytes] = []

    def answer(self, request: Message) -> Message | None:
        """Return the response to a login request, or None for any other request."""
        if isinstance(request, sasl_handshake.Request):
            self._mechanism, self._messages = request.mechanism, []
            is_offered = request.mechanism in self._sasl.mechanisms
            return sasl_handshake.Response(
                error_code=errors.NONE if is_offered else errors.UNSUPPORTED_SASL_MECHANISM,
                mechanisms=list(self._sasl.mechanisms),
            )
        if not isinstance(request, sasl_authenticate.Request):
            return None
        self._messages.append(bytes(request.auth_bytes))
        try:
            challenge = {"PLAIN": self._plain, "OAUTHBEARER": self._bearer}.get(self._mechanism, self._scram)()
        except PermissionError as refusal:
            return sasl_authenticate.Response(
                error_code=errors.SASL_AUTHENTICATION_FAILED, error_message=str(refusal), auth_bytes=b""
            )
        return sasl_authenticate.Response(
            error_code=errors.NONE, auth_bytes=challenge, session_lifetime_ms=self._sasl.lifetime_ms
        )

    def _accept(self, login: str) -> None:
        self._sasl.logins.append(login)
        self.is_logged_in = True

    def _plain(self) -> bytes:
        _, user, password = self._messages[0].decode().split("\0")
        if self._sasl.passwords.get(user) != password:
            raise PermissionError("Authentication failed: Invalid username or password")
        self._accept(user)
        return b""

    def _bearer(self) -> bytes:
        if len(self._messages) == 2:
            assert b"\x01" == self._messages[1]
            raise PermissionError('{"status":"invalid_token"}')
        header, bearer, *extensions, end, after = self._messages[0].decode().split("\x01")
        assert ("n,,", "", "") == (header, end, after)
        token = bearer.removeprefix("auth=Bearer ")
        if token not in self._sasl.tokens and not _is_unsigned(token):
            return b'{"status":"invalid_token"}'
        self._accept(token)
        self._sasl.extensions += extensions
        return b""

    def _scram(self) -> bytes:
        hash_name = self._mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        bare = self._messages[0].removeprefix(b"n,,")
        name, nonce = bare.split(b",r=")
        user = name.removeprefix(b"n=").decode().replace("=2C", ",").replace("=3D", "=")
        first = b"r=%sxyz,s=%s,i=%d" % (nonce, base64.b64encode(SALT), ITERATIONS)
        if len(self._messages) == 1:
            return first
        without_proof, proof = self._messages[1].split(b",p=")
        assert without_proof == b"c=biws,r=" + nonce + b"xyz"
        password = "" if self._sasl.is_impostor else self._sasl.passwords.get(user, "")
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), SALT, ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        signed = b",".join((bare, first, without_proof))
        expected = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
        sent = bytes(a ^ b for a, b in zip(base64.b64decode(proof), expected, strict=True))
        if sent != client_key and not self._sasl.is_impostor:
            raise PermissionError(f"Authentication failed due to invalid credentials with {self._mechanism}")
        self._accept(user)
        return b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name))


def _is_unsigned(token: str) -> bool:
    header, _, signature = token.split(".")
    return not signature and json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
