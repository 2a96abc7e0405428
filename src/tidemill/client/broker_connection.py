"""A blocking connection to one broker.  Responses arrive in the order of the requests.

The connection first requests the broker's versions (ApiVersions), so it works with any Kafka broker.  Responses are
received into a buffer that the connection reuses: views into a response (record batches) are valid until the next
`receive`.
"""

import socket
import ssl
from struct import Struct
from typing import Any, Final

from tidemill.client.connection_settings import ConnectionSettings, Endpoint
from tidemill.client.failures import BrokerUnreachable, ProtocolMismatch, SettingsError
from tidemill.model import errors
from tidemill.wire.client_connection import ClientConnection
from tidemill.wire.messages import api_versions
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Api, Message

_FRAME_SIZE: Final = Struct(">i")
_FRAME_BYTES_MAX: Final = 1 << 30  # more than any broker sends, but less than HTTP or TLS bytes read as a size
_BUFFER_BYTES_KEPT: Final = 16 << 20  # a larger buffer, for a response with one huge batch, is not reused
_API_VERSIONS_VERSION: Final = 3  # v4 adds nothing that this client needs
_CLIENT_NAME: Final = "tidemill"
_CLIENT_VERSION: Final = "0.1"


class BrokerConnection:
    """A connection to one broker.  It is not thread-safe.  A connection that raises BrokerUnreachable is closed."""

    def __init__(self, endpoint: Endpoint, settings: ConnectionSettings) -> None:
        self.endpoint = endpoint
        self._settings = settings
        self._requests = ClientConnection(settings.client_id)
        self._buffer = bytearray(64 << 10)
        self._socket = _connect(endpoint, settings)
        try:
            self._ask_versions()
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
        """Send a request; a later `receive` returns its response.  Raise BrokerUnreachable."""
        if version is None:
            version = self.version_of(api)
        _, parts = self._requests.send(api, request, version=version)
        try:
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            self.close()
            raise self._broken(error) from error

    def receive(self) -> Any:
        """Return the response to the oldest outstanding request.  Raise BrokerUnreachable."""
        try:
            return self._requests.receive(self._receive_frame()).response
        except OSError as error:
            self.close()
            raise self._broken(error) from error
        except ProtocolError as error:
            self.close()
            raise BrokerUnreachable(f"{self._name} is not a Kafka broker, or not its Kafka port: {error}") from error

    @property
    def _name(self) -> str:
        return f"{self.endpoint.host}:{self.endpoint.port}"

    def _broken(self, error: OSError) -> BrokerUnreachable:
        if isinstance(error, TimeoutError):
            return BrokerUnreachable(
                f"broker {self._name} did not respond within {self._settings.request_timeout_ms} ms"
            )
        return BrokerUnreachable(f"the connection to broker {self._name} failed: {error}")

    def _receive_frame(self) -> memoryview:
        with memoryview(self._buffer) as small:
            self._fill(small[:4])
        (size,) = _FRAME_SIZE.unpack_from(self._buffer)
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
        Request the broker's versions.

        A broker that does not know the request's version refuses the request with a v0 response.  The client then sends
        a v0 request (KIP-511).
        """
        api = api_versions.API
        request = api_versions.Request(client_software_name=_CLIENT_NAME, client_software_version=_CLIENT_VERSION)
        response = self.request(api, request, version=_API_VERSIONS_VERSION)
        if response.error_code == errors.UNSUPPORTED_VERSION:  # a broker before 2.4
            response = self.request(api, request, version=0)
        if response.error_code != errors.NONE:
            raise ProtocolMismatch(f"broker {self._name} refuses ApiVersions: {errors.name(response.error_code)}")
        self._requests.learn(response)


def _connect(endpoint: Endpoint, settings: ConnectionSettings) -> socket.socket:
    seconds = settings.connect_timeout_ms / 1_000
    context = None if settings.tls is None else settings.tls.context()
    try:
        plain = socket.create_connection(endpoint, seconds)
    except OSError as error:
        raise BrokerUnreachable(f"cannot connect to broker {endpoint.host}:{endpoint.port}: {error}") from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected = plain
    if context is not None:
        try:
            connected = context.wrap_socket(plain, server_hostname=endpoint.host)
        except (OSError, ValueError) as error:
            plain.close()
            if isinstance(error, ssl.SSLError | ValueError):  # a retry would fail in the same way
                raise SettingsError(_tls_failure(endpoint, error)) from error
            raise BrokerUnreachable(
                f"the TLS handshake with broker {endpoint.host}:{endpoint.port} failed: {error}"
            ) from error
    connected.settimeout(settings.request_timeout_ms / 1_000)
    return connected


def _tls_failure(endpoint: Endpoint, error: Exception) -> str:
    name = f"{endpoint.host}:{endpoint.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of broker {name} is not trusted: {error.verify_message}; check ssl.ca.location"
    return (
        f"broker {name} has no TLS on this port, or refuses the client: {error}; check security.protocol and the port"
    )
