"""The broker's end of a Kafka connection: frames in, requests out; responses leave in the order of their requests.

    for frame in frame_buffer.frames():
        envelope = connection.receive(frame)
        ...
        transport.writelines(connection.respond(envelope, envelope.encode(response)))

A header or body that is not Kafka's, an API that is not offered, a version that is not spoken: ProtocolError, and the
connection is closed, as Kafka does.  One version mismatch is answered: a client asks ApiVersions before it can know
what the broker speaks (KIP-511); that envelope comes with its answer.
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


class RequestEnvelope:
    """A request, and what its answer needs."""

    __slots__ = ("answer", "api", "client_id", "correlation_id", "held", "is_answered", "request", "size", "version")

    def __init__(
        self, api: Api, version: int, correlation_id: int, client_id: str | None, request: Any, size: int
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request  # `api.request`; None where `answer` is there
        self.size = size  # bytes of the frame, without its size
        self.answer: list[Part] | None = None  # already known: nothing to handle, only to `respond` with
        self.is_answered = False
        self.held: list[Part] | None = None  # the answer, while an earlier request waits for its own

    def encode(self, response: Message) -> list[Part]:
        """The frame that answers this request."""
        return self.api.encode_response(self.version, response, self.correlation_id)


class ServerConnection:
    """Requests of one client, in order."""

    __slots__ = ("_apis", "pending")

    def __init__(self, apis: Mapping[int, Api]) -> None:
        self._apis = apis  # what this broker answers
        self.pending: deque[RequestEnvelope] = deque()
        """Requests that wait for their own answer, or an earlier one's.  Bounded by the owner, who stops reading."""

    def receive(self, frame: memoryview) -> RequestEnvelope:
        """The request in this frame, which `respond` waits for.  ProtocolError: close the connection."""
        envelope = self.decode(frame)
        self.pending.append(envelope)
        return envelope

    def decode(self, frame: memoryview) -> RequestEnvelope:
        """The request in this frame, for those who answer in any order."""
        size = len(frame)
        if size < _HEADER_SIZE:
            raise ProtocolError(f"a request of {size} bytes has no header")
        key, version, correlation_id, client_size = _HEADER.unpack_from(frame, 0)
        api = self._apis.get(key)
        if api is None:
            raise ProtocolError(f"API key {key} (version {version}) is not offered by this broker")
        if version not in api.versions:
            if key == api_versions.API.key:
                return self._version_refusal(api, correlation_id, size)
            raise ProtocolError(
                f"{api.name} v{version} is not spoken by this broker: v{api.versions.start}-{api.versions.stop - 1} are"
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
        What may be sent now: nothing while an earlier request is unanswered, else this answer and all that wait for it.

        `None` answers a request that has no response (Produce with acks=0).
        """
        assert not envelope.is_answered, f"{envelope.api.name} {envelope.correlation_id} was answered before"
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
        """The client is gone: answers that wait for earlier ones need not be kept."""
        for envelope in self.pending:
            envelope.is_answered = True
            envelope.held = None
        self.pending.clear()

    def _version_refusal(self, api: Api, correlation_id: int, size: int) -> RequestEnvelope:
        response = api_versions.Response(error_code=errors.UNSUPPORTED_VERSION, api_keys=advertised(self._apis))
        envelope = RequestEnvelope(api, 0, correlation_id, None, None, size)
        envelope.answer = envelope.encode(response)
        return envelope
