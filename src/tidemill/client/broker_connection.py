"""One blocking connection to one broker: requests out, responses back in the order of the requests.

The versions that the broker speaks are asked for first (ApiVersions), so that any Kafka broker will do.  A response
is received into one buffer that belongs to the connection and is used again: what was decoded from it as a view
(record batches) is valid until the next `receive`.
"""

import contextlib
import socket
import ssl
from collections import deque
from struct import Struct
from typing import Any, Final, NamedTuple

from tidemill.client.connection_settings import ConnectionSettings, Endpoint
from tidemill.client.failures import BrokerUnreachable, ProtocolMismatch
from tidemill.model import errors
from tidemill.wire.messages import api_versions
from tidemill.wire.primitives import ProtocolError, read_uvarint
from tidemill.wire.schema import API_VERSIONS_KEY, Api, Message

_FRAME_SIZE: Final = Struct(">i")
_CORRELATION_ID: Final = Struct(">i")
_ERROR_CODE: Final = Struct(">h")
_API_VERSIONS_VERSION: Final = 3  # v4 asks nothing that we need
_FRAME_BYTES_MAX: Final = 1 << 30  # more than any broker sends, less than what four letters of HTTP or TLS read as
_BUFFER_BYTES_KEPT: Final = 16 << 20  # a response of one huge batch gets a buffer of its own, which is then let go
_CLIENT_NAME: Final = "tidemill"
_CLIENT_VERSION: Final = "0.1"


class _Awaited(NamedTuple):
    api: Api
    version: int
    correlation_id: int


class BrokerConnection:
    """Not for several threads.  After any exception but ProtocolMismatch it is closed."""

    def __init__(self, endpoint: Endpoint, settings: ConnectionSettings) -> None:
        self.endpoint = endpoint
        self._settings = settings
        self._awaited: deque[_Awaited] = deque()
        self._correlation_id = 0
        self._buffer = bytearray(64 << 10)
        self._ranges: dict[int, tuple[int, int]] = {}  # API key → the broker's first and last version
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
        """Nothing is owed: another request may use the connection."""
        return not self._awaited

    def close(self) -> None:
        self._socket.close()

    def version_of(self, api: Api, *, newest: int | None = None) -> int:
        """The newest version that both sides speak, at most `newest`.  ProtocolMismatch when there is none."""
        last = api.versions.stop - 1 if newest is None else min(newest, api.versions.stop - 1)
        first_there, last_there = self._ranges.get(api.key, (0, -1))
        version = min(last, last_there)
        if version < max(api.versions.start, first_there):
            raise ProtocolMismatch(
                f"broker {self._name} speaks {api.name} versions {first_there} to {last_there}, "
                f"we speak {api.versions.start} to {last}: use a broker of Apache Kafka 2.1 or later"
            )
        return version

    def request(self, api: Api, request: Message, *, version: int | None = None) -> Any:
        """Send and wait.  The connection must be idle."""
        assert self.is_idle, "a pipelined response would be taken for this one's"
        self.send(api, request, version=version)
        return self.receive()

    def send(self, api: Api, request: Message, *, version: int | None = None) -> None:
        """Send; its response is that of a later `receive`."""
        if version is None:
            version = self.version_of(api)
        self._correlation_id = self._correlation_id + 1 & 0x7FFFFFFF
        parts = api.encode_request(version, request, self._correlation_id, self._settings.client_id)
        try:
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            self.close()
            raise self._broken(error) from error
        self._awaited.append(_Awaited(api, version, self._correlation_id))

    def receive(self) -> Any:
        """The response to the oldest request that has none yet."""
        awaited = self._awaited[0]
        try:
            frame = self._receive_frame()
            (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
            if correlation_id != awaited.correlation_id:
                raise ProtocolError(f"response {correlation_id} came where {awaited.correlation_id} was due")
            position = 4
            if awaited.version >= awaited.api.response_header_v1_from:
                position = _after_tags(frame, position)
            version = awaited.version
            if awaited.api.key == API_VERSIONS_KEY and _ERROR_CODE.unpack_from(frame, 4)[0] == errors.UNSUPPORTED_VERSION:
                version = 0  # KIP-511: who does not know the version that we ask in answers in the oldest
            response = awaited.api.decode_response(version, frame, position)
        except OSError as error:
            self.close()
            raise self._broken(error) from error
        except ProtocolError as error:
            self.close()
            raise BrokerUnreachable(
                f"broker {self._name} does not speak Kafka's protocol, or not on this port: {error}"
            ) from error
        self._awaited.popleft()
        return response

    @property
    def _name(self) -> str:
        return f"{self.endpoint.host}:{self.endpoint.port}"

    def _broken(self, error: OSError) -> BrokerUnreachable:
        if isinstance(error, TimeoutError):
            return BrokerUnreachable(f"broker {self._name} did not answer in {self._settings.request_timeout_ms} ms")
        return BrokerUnreachable(f"connection to broker {self._name} broke: {error}")

    def _receive_frame(self) -> memoryview:
        with memoryview(self._buffer) as small:
            self._fill(small[:4])
        (size,) = _FRAME_SIZE.unpack_from(self._buffer)
        if not 4 <= size <= _FRAME_BYTES_MAX:
            raise ProtocolError(f"a response claims {size} bytes")
        if size > len(self._buffer) or len(self._buffer) > _BUFFER_BYTES_KEPT:
            # A new one, not a larger one: somebody may still hold views on the old.  A half more than needed, so that
            # responses which differ a little do not allocate each time.
            self._buffer = bytearray(size if size > _BUFFER_BYTES_KEPT else min(size + size // 2, _BUFFER_BYTES_KEPT))
        frame = memoryview(self._buffer)[:size]
        self._fill(frame)
        return frame.toreadonly()

    def _fill(self, view: memoryview) -> None:
        filled = 0
        while filled < len(view):
            received = self._socket.recv_into(view[filled:])
            if received == 0:
                raise ConnectionResetError("the broker closed it")
            filled += received

    def _ask_versions(self) -> None:
        api = api_versions.API
        request = api_versions.Request(client_software_name=_CLIENT_NAME, client_software_version=_CLIENT_VERSION)
        response = self.request(api, request, version=_API_VERSIONS_VERSION)
        if response.error_code == errors.UNSUPPORTED_VERSION:  # a broker before 2.4
            response = self.request(api, request, version=0)
        if response.error_code != errors.NONE:
            raise ProtocolMismatch(f"broker {self._name} refuses ApiVersions: {errors.name(response.error_code)}")
        self._ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


def _connect(endpoint: Endpoint, settings: ConnectionSettings) -> socket.socket:
    seconds = settings.connect_timeout_ms / 1_000
    try:
        plain = socket.create_connection(endpoint, seconds)
    except OSError as error:
        raise BrokerUnreachable(f"cannot connect to broker {endpoint.host}:{endpoint.port}: {error}") from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected = plain
    if settings.tls is not None:
        context = settings.tls.context()
        try:
            connected = context.wrap_socket(plain, server_hostname=endpoint.host)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            with contextlib.suppress(OSError):
                plain.close()
            raise BrokerUnreachable(_tls_failure(endpoint, error)) from error
    connected.settimeout(settings.request_timeout_ms / 1_000)
    return connected


def _tls_failure(endpoint: Endpoint, error: Exception) -> str:
    name = f"{endpoint.host}:{endpoint.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of broker {name} is not trusted: {error.verify_message}; check ssl.ca.location"
    return f"broker {name} does not speak TLS here, or refuses us: {error}; check security.protocol and the port"


def _after_tags(frame: memoryview, position: int) -> int:
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
    return position
