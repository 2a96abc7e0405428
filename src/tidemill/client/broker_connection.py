"""A blocking connection to one broker.  Responses arrive in the order of the requests.

The connection first requests the broker's API versions (ApiVersions), so it works with any Kafka broker, and then logs
in if SASL is configured.  If the broker limits the lifetime of a login, the connection logs in again before it sends a
request near the end of that lifetime (KIP-368).

Responses are received into a buffer that the connection reuses: views into a response (record batches) are valid until
the next `receive`.
"""

import random
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Collection
from struct import Struct
from typing import Any, Final

from tidemill.client.connection_settings import ConnectionSettings, Endpoint
from tidemill.client.failures import BrokerUnreachable, ClientError, ProtocolMismatch, SettingsError
from tidemill.client.sasl_login import log_in, no_sasl
from tidemill.client.socket_dial import dial
from tidemill.client.socket_send import send_parts
from tidemill.model import errors
from tidemill.wire.client_connection import ClientConnection
from tidemill.wire.messages import api_versions, sasl_handshake
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Api, Message

_FRAME_SIZE: Final = Struct(">i")
_FRAME_BYTES_MAX: Final = 1 << 30  # more than any broker sends, but less than HTTP or TLS bytes misread as a size
_BUFFER_BYTES_MIN: Final = 64 << 10
_BUFFER_BYTES_KEPT: Final = 16 << 20  # a larger buffer, for a response with one huge batch, is not reused
_API_VERSIONS_VERSION: Final = 3  # version 4 of ApiVersions adds nothing that this client needs
_CLIENT_NAME: Final = "tidemill"
_CLIENT_VERSION: Final = "0.1"
# A connection logs in again after this share of a login's lifetime, plus a random 0 to 0.1, so that clients do not all
# log in at the same time.
_LOGIN_LIFETIME_USED: Final = 0.85
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # the first bytes of a TLS alert and of a TLS handshake


class BrokerConnection:
    """A connection to one broker.  It is not thread-safe.  A connection that raises BrokerUnreachable is closed."""

    def __init__(self, endpoint: Endpoint, settings: ConnectionSettings, *, open_within_ms: int | None = None) -> None:
        """
        Connect, request the broker's API versions, and log in.

        Without `open_within_ms`, connecting (with TLS) may take `connect_timeout_ms`, and each response
        `request_timeout_ms`.  Raise SettingsError if a retry would fail in the same way, and otherwise
        BrokerUnreachable.
        """
        self.endpoint = endpoint
        self._given = settings  # references in the settings are resolved again for each login
        self._settings = settings = settings.resolved()
        self._opens_until = None if open_within_ms is None else time.monotonic() + open_within_ms / 1_000
        self._requests = ClientConnection(settings.client_id)
        self._buffer = bytearray(_BUFFER_BYTES_MIN)
        self._early: deque[Any] = deque()  # responses that arrived while the connection logged in again
        self._logs_in_again_at: float | None = None
        self._has_responded = False  # whether the broker has responded to a request of the caller
        self._patience_used_s = settings.request_timeout_ms / 1_000  # the current timeout of the socket
        connect_s = settings.connect_timeout_ms / 1_000
        if open_within_ms is not None:
            connect_s = min(connect_s, open_within_ms / 1_000)
        self._socket = _connect(endpoint, settings, connect_s)
        try:
            self._ask_versions()
            if settings.sasl is not None:
                self._log_in()
            self._opens_until = None
            self._patience_used_s = settings.request_timeout_ms / 1_000
            self._socket.settimeout(self._patience_used_s)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def is_idle(self) -> bool:
        """Whether no response is outstanding, so that the connection can be used for another request."""
        return self._requests.in_flight_count == 0

    def close(self) -> None:
        self._socket.close()

    def version_of(self, api: Api, *, newest: int | None = None) -> int:
        """Return the newest version that both sides support, at most `newest`.

        Raise ProtocolMismatch if the two sides have no version in common.
        """
        try:
            version = self._requests.version_of(api)
        except ProtocolError as error:
            raise ProtocolMismatch(
                f"broker {self._name} is not compatible: {error}; use Apache Kafka 2.1 or later"
            ) from error
        return version if newest is None else min(version, newest)

    def request(self, api: Api, request: Message, *, version: int | None = None) -> Any:
        """Send a request and return its response.  The connection must be idle.  Raise BrokerUnreachable."""
        assert self.is_idle, "an earlier response is outstanding and would be taken for this one"
        self.send(api, request, version=version)
        return self.receive()

    def send(self, api: Api, request: Message, *, version: int | None = None) -> None:
        """Send a request; a later `receive` returns its response.  Raise BrokerUnreachable.

        Log in again first if the login is about to expire; raise SettingsError if the broker refuses that.
        """
        if self._logs_in_again_at is not None and time.monotonic() >= self._logs_in_again_at:
            self._log_in_again()
        self._send(api, request, version)

    def receive(self) -> Any:
        """Return the response to the oldest outstanding request.  Raise BrokerUnreachable."""
        if self._early:
            return self._early.popleft()
        _, response = self._receive()
        self._has_responded = True
        return response

    @property
    def _name(self) -> str:
        return f"{self.endpoint.host}:{self.endpoint.port}"

    def _send(self, api: Api, request: Message, version: int | None) -> int:
        """Send a request and return its correlation id."""
        correlation_id, parts = self._requests.send(
            api, request, version=self.version_of(api) if version is None else version
        )
        try:
            if self._opens_until is not None:
                self._patience_used_s = self._patience_s()
                self._socket.settimeout(self._patience_used_s)
            send_parts(self._socket, parts)
        except OSError as error:
            self.close()
            raise self._broken(error) from error
        return correlation_id

    def _receive(self) -> tuple[int, Any]:
        """Return the next response and its correlation id."""
        try:
            answer = self._requests.receive(self._receive_frame())
        except OSError as error:
            self.close()
            raise self._broken(error) from error
        except ProtocolError as error:
            self.close()
            raise BrokerUnreachable(f"{self._name} is not a Kafka broker, or not its Kafka port: {error}") from error
        return answer.correlation_id, answer.response

    def _patience_s(self) -> float:
        """Return how long to wait for a response, in seconds."""
        seconds = self._settings.request_timeout_ms / 1_000
        if self._opens_until is None:
            return seconds
        return max(min(seconds, self._opens_until - time.monotonic()), 0.001)

    def fileno(self) -> int:
        """Return the socket's descriptor, so that a selector can wait for a response."""
        return self._socket.fileno()

    @property
    def has_received(self) -> bool:
        """
        Whether a response, or a part of one, has already been read from the socket, so that a selector would not report
        it.
        """
        return bool(self._early) or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0)

    def _broken(self, error: OSError) -> ClientError:
        if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or "").upper():
            return SettingsError(
                f"broker {self._name} refuses the client's certificate: {error.reason}; check "
                "ssl.certificate.location and ssl.key.location"
            )
        hint = "" if self._has_responded else self._what_may_be_missing()
        if isinstance(error, TimeoutError):
            waited_ms = round(self._patience_used_s * 1_000)
            return BrokerUnreachable(f"broker {self._name} did not respond within {waited_ms} ms{hint}")
        return BrokerUnreachable(f"the connection to broker {self._name} failed: {error}{hint}")

    def _what_may_be_missing(self) -> str:
        """Return the end of an error message: the settings that the listener may require and that are missing."""
        tls, sasl = self._settings.tls, self._settings.sasl
        missing = [name for name, one in (("TLS", tls), ("SASL", sasl)) if one is None]
        hint = f"; if this listener needs {' or '.join(missing)}, set security.protocol" if missing else ""
        if tls is not None and not tls.has_certificate:
            hint += "; if it needs a client certificate, set ssl.certificate.location"
        return hint

    def _receive_frame(self) -> memoryview:
        with memoryview(self._buffer) as small:
            self._fill(small[:4])
        (size,) = _FRAME_SIZE.unpack_from(self._buffer)
        if bytes(self._buffer[:2]) in _TLS_RECORDS:
            self.close()
            raise SettingsError(f"broker {self._name} speaks TLS on this port: set security.protocol=SSL or SASL_SSL")
        if not 4 <= size <= _FRAME_BYTES_MAX:
            raise ProtocolError(f"a response has a size of {size} bytes")
        if size > len(self._buffer) or len(self._buffer) > _BUFFER_BYTES_KEPT:
            # Allocate a new buffer instead of resizing: a caller may still hold views on the old buffer.  The new one
            # is half again as large as needed, so that slightly larger responses do not need another buffer.
            self._buffer = bytearray(size if size > _BUFFER_BYTES_KEPT else min(size + size // 2, _BUFFER_BYTES_KEPT))
        frame = memoryview(self._buffer)[:size]
        self._fill(frame)
        return frame.toreadonly()

    def _fill(self, view: memoryview) -> None:
        filled = 0
        while filled < len(view):
            received = self._socket.recv_into(view[filled:])
            if received == 0:
                raise ConnectionResetError("the broker closed the connection")
            filled += received

    def _ask_versions(self) -> None:
        """
        Request the broker's API versions.

        A broker that does not know the request's version refuses the request with a v0 response.  The client then sends
        a v0 request (KIP-511).
        """
        api = api_versions.API
        request = api_versions.Request(client_software_name=_CLIENT_NAME, client_software_version=_CLIENT_VERSION)
        response = self._ask(api, request, _API_VERSIONS_VERSION)
        if response.error_code == errors.UNSUPPORTED_VERSION:  # Kafka before 2.4 does not know version 3
            response = self._ask(api, request, 0)
        if response.error_code != errors.NONE:
            raise ProtocolMismatch(f"broker {self._name} refuses ApiVersions: {errors.name(response.error_code)}")
        self._requests.learn(response)

    def _log_in(self) -> None:
        sasl = self._settings.sasl
        assert sasl is not None, "the connection logs in only with SASL settings"
        try:
            self.version_of(sasl_handshake.API)
        except ProtocolMismatch:
            raise no_sasl(self._name) from None
        began_at = time.monotonic()
        lifetime_ms = log_in(self._ask, self._name, sasl, self._patience_s)
        used = _LOGIN_LIFETIME_USED + random.random() / 10
        self._logs_in_again_at = began_at + lifetime_ms * used / 1_000 if lifetime_ms > 0 else None

    def _log_in_again(self) -> None:
        """Log in again with the current credentials.  Views into the last response remain valid."""
        self._buffer = bytearray(_BUFFER_BYTES_MIN)
        try:
            self._settings = self._given.resolved()
            self._log_in()
        except BaseException:
            self.close()
            raise

    def _ask(self, api: Api, request: Message, version: int | None = None) -> Any:
        """Send a request and return its response; keep the responses to earlier requests for `receive`."""
        wanted = self._send(api, request, version)
        while True:
            correlation_id, response = self._receive()
            if correlation_id == wanted:
                return response
            self._early.append(response)
            self._buffer = bytearray(_BUFFER_BYTES_MIN)  # the response may have views into the old buffer


def wait_for_responses(connections: Collection[BrokerConnection], timeout_s: float) -> list[BrokerConnection]:
    """Return the connections on which a response, or a part of one, has arrived; wait for one up to `timeout_s`."""
    ready = [connection for connection in connections if connection.has_received]
    if ready or not connections:
        return ready
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ, connection)
        return [key.data for key, _ in selector.select(timeout_s)]


def _connect(endpoint: Endpoint, settings: ConnectionSettings, seconds: float) -> socket.socket:
    name = f"{endpoint.host}:{endpoint.port}"
    context = None if settings.tls is None else settings.tls.context()
    ends_at = time.monotonic() + seconds
    try:
        plain = dial(endpoint, seconds)
    except OSError as error:
        raise BrokerUnreachable(f"cannot connect to broker {name}: {error}") from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.settimeout(max(ends_at - time.monotonic(), 0.001))
    connected = plain
    if context is not None:
        try:
            connected = context.wrap_socket(plain, server_hostname=endpoint.host)
        except (OSError, ValueError) as error:
            plain.close()
            if isinstance(error, ssl.SSLError | ValueError) and not isinstance(error, ssl.SSLEOFError):
                raise SettingsError(_tls_failure(name, error)) from error  # a retry would fail in the same way
            raise BrokerUnreachable(
                f"the TLS handshake with broker {name} failed: {error}; if this listener has no TLS, set "
                "security.protocol"
            ) from error
    connected.settimeout(settings.request_timeout_ms / 1_000)
    return connected


def _tls_failure(name: str, error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        is_name_wrong = "ismatch" in error.verify_message
        check = "bootstrap.servers and the certificate's names" if is_name_wrong else "ssl.ca.location"
        return f"the certificate of broker {name} is not trusted: {error.verify_message}; check {check}"
    return (
        f"broker {name} has no TLS on this port, or refuses the client: {error}; check security.protocol and the port"
    )
