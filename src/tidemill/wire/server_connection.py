"""The broker's end of a Kafka connection: decodes frames into requests and releases responses in request order.

    for frame in frame_buffer.frames():
        envelope = connection.receive(frame)
        ...
        transport.writelines(connection.respond(envelope, envelope.encode(response)))

ProtocolError is raised for a malformed header or body, an API that the broker does not implement, and an unsupported
version.  The broker then closes the connection, as Kafka does.  An unsupported version of ApiVersions is not an error,
because a client sends ApiVersions before it knows the broker's versions (KIP-511): the envelope of such a request
already contains the response.
"""

from collections import deque
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from tidemill.model import errors
from tidemill.wire.api import advertised
from tidemill.wire.messages import api_versions
from tidemill.wire.primitives import ProtocolError, skip_tags
from tidemill.wire.schema import Api, Message, Part

_HEADER: Final = Struct(">hhih")  # API key, version, correlation id, length of the client id
_HEADER_SIZE: Final = _HEADER.size


class UnknownRequest(ProtocolError):
    """A request of an API, or in a version, that the broker does not implement."""


class RequestEnvelope:
    """A request, and the data that is needed to respond to it."""

    __slots__ = (
        "answer", "api", "begun_ms", "client_id", "correlation_id", "held", "is_answered", "request", "size", "version",
    )  # fmt: skip

    def __init__(
        self, api: Api, version: int, correlation_id: int, client_id: str | None, request: Any, size: int
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request  # an instance of `api.request`; None if `answer` is set
        self.size = size  # bytes of the frame, without its size prefix
        self.answer: list[Part] | None = None  # if set, the response to pass to `respond` instead of calling a handler
        self.begun_ms = 0  # the time on the owner's monotonic clock at which the owner began to handle the request
        self.is_answered = False
        self.held: list[Part] | None = None  # the response, while it must wait for the response to an earlier request

    def encode(self, response: Message) -> list[Part]:
        """Return the frame with this response."""
        return self.api.encode_response(self.version, response, self.correlation_id)


class ServerConnection:
    """The requests of one connection, in order."""

    __slots__ = ("_apis", "_listed", "pending")

    def __init__(self, apis: Mapping[int, Api], *, unlisted: Mapping[int, Api] | None = None) -> None:
        """`apis` are those that this broker implements.  It also implements `unlisted`, which ApiVersions omits."""
        self._listed = apis
        self._apis = {**apis, **(unlisted or {})}
        self.pending: deque[RequestEnvelope] = deque()
        """The requests whose response has not been released yet.  The owner bounds their number by pausing reading."""

    def receive(self, frame: memoryview) -> RequestEnvelope:
        """
        Decode the request in this frame and add it to `pending`.

        Raise ProtocolError if the frame is not a request that this broker implements.  The caller must then close the
        connection.
        """
        envelope = self.decode(frame)
        self.pending.append(envelope)
        return envelope

    def decode(self, frame: memoryview) -> RequestEnvelope:
        """
        Decode the request in this frame without adding it to `pending`.  Raise ProtocolError; for an unknown API or
        version, UnknownRequest.
        """
        size = len(frame)
        if size < _HEADER_SIZE:
            raise ProtocolError(f"a request of {size} bytes has no header")
        key, version, correlation_id, client_size = _HEADER.unpack_from(frame, 0)
        api = self._apis.get(key)
        if api is None:
            raise UnknownRequest(f"this broker does not implement API key {key} (version {version})")
        if version not in api.versions:
            if key == api_versions.API.key:
                return self._version_refusal(api, correlation_id, size)
            raise UnknownRequest(
                f"this broker supports {api.name} v{api.versions.start}-{api.versions.stop - 1}, not v{version}"
            )
        position = _HEADER_SIZE
        client_id = None
        if client_size >= 0:
            position += client_size
            if position > size:
                raise ProtocolError(f"a client id of {client_size} bytes in a request of {size}")
            try:
                client_id = str(frame[_HEADER_SIZE:position], "utf-8")
            except UnicodeDecodeError as error:
                raise ProtocolError("the client id is not UTF-8") from error
        elif client_size != -1:
            raise ProtocolError(f"a client id of {client_size} bytes")
        if version >= api.flexible_from:
            if position >= size:
                raise ProtocolError("the request ends inside its header")
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, tags)
        request = api.decode_request(version, frame, position)
        return RequestEnvelope(api, version, correlation_id, client_id, request, size)

    def respond(self, envelope: RequestEnvelope, parts: list[Part] | None) -> list[Part]:
        """
        Store the response to a request and return the parts to send now.

        While an earlier request is unanswered, the result is empty.  Otherwise it is this response, followed by the
        responses that waited for it.  `parts` is None for a request without a response (Produce with acks=0).
        """
        assert not envelope.is_answered, f"{envelope.api.name} {envelope.correlation_id} was already answered"
        pending = self.pending
        if pending[0] is envelope:
            pending.popleft()
            envelope.is_answered = True
            sendable = parts or []
            while pending and pending[0].is_answered:
                sendable = sendable + (pending.popleft().held or [])
            return sendable
        envelope.is_answered = True
        envelope.held = parts
        return []

    def forget(self) -> None:
        """Drop all pending requests and held responses, because the client has disconnected."""
        for envelope in self.pending:
            envelope.is_answered = True
            envelope.held = None
        self.pending.clear()

    def _version_refusal(self, api: Api, correlation_id: int, size: int) -> RequestEnvelope:
        response = api_versions.Response(error_code=errors.UNSUPPORTED_VERSION, api_keys=advertised(self._listed))
        envelope = RequestEnvelope(api, 0, correlation_id, None, None, size)
        envelope.answer = envelope.encode(response)
        return envelope
