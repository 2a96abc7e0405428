"""The client's end of a Kafka connection: assigns correlation ids to requests and matches responses to them."""

from typing import Any, Final, NamedTuple

from tidemill.model import errors
from tidemill.wire.messages import api_versions
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Api, Message, Part

IN_FLIGHT_MAX: Final = 1 << 16  # the most requests in flight; bounds the client's memory if a broker never responds
_CORRELATION_ID_END: Final = 1 << 31


class Answer(NamedTuple):
    """A response, with the API and the correlation id of its request."""

    correlation_id: int
    api: Api
    response: Any  # an instance of `api.response`


class ClientConnection:
    """The requests of one connection.  Once the broker's versions are known, requests use the newest common version."""

    def __init__(self, client_id: str | None = None) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        self._in_flight: dict[int, tuple[Api, int]] = {}
        self._broker_versions: dict[int, range] | None = None

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    def learn(self, response: api_versions.Response) -> None:
        """Use the versions in this ApiVersions response, even if it refuses the version of the ApiVersions request."""
        self._broker_versions = {key.api_key: range(key.min_version, key.max_version + 1) for key in response.api_keys}

    def version_of(self, api: Api) -> int:
        """
        Return the newest version that both ends support.

        Before `learn` is called, return the newest version that this client supports.  Raise ProtocolError if the two
        ends have no version in common.
        """
        newest = api.versions.stop - 1
        if self._broker_versions is None:
            return newest
        theirs = self._broker_versions.get(api.key, range(0))
        version = min(newest, theirs.stop - 1)
        if version < max(api.versions.start, theirs.start) or not theirs:
            raise ProtocolError(f"{api.name}: the broker supports {theirs}, this client {api.versions}")
        return version

    def send(
        self, api: Api, request: Message, *, version: int | None = None, has_response: bool = True
    ) -> tuple[int, list[Part]]:
        """
        Return the request's correlation id and the frame to send.

        `version` defaults to `version_of(api)`.  Set `has_response` to False for Produce with acks=0.
        """
        if version is None:
            version = self.version_of(api)
        assert len(self._in_flight) < IN_FLIGHT_MAX, f"{IN_FLIGHT_MAX} requests await a response"
        correlation_id = self._correlation_id
        parts = api.encode_request(version, request, correlation_id, self._client_id)
        self._correlation_id = (correlation_id + 1) % _CORRELATION_ID_END
        if has_response:
            self._in_flight[correlation_id] = (api, version)
        return correlation_id, parts

    def receive(self, frame: memoryview) -> Answer:
        """
        Return the response in this frame, matched to its request.

        Raise ProtocolError if the frame is not a response to a request in flight.  The caller must then close the
        connection.
        """
        if len(frame) < 4:
            raise ProtocolError(f"a response of {len(frame)} bytes has no header")
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        expected = self._in_flight.pop(correlation_id, None)
        if expected is None:
            raise ProtocolError(f"a response with correlation id {correlation_id}, which no request in flight has")
        api, version = expected
        if api.key == api_versions.API.key and _error_code(frame) == errors.UNSUPPORTED_VERSION:
            version = 0  # A refusal always has version 0, so that every client can read it (KIP-511).
        return Answer(correlation_id, api, api.decode_response(version, frame, api.response_body_at(version, frame)))


def _error_code(frame: memoryview) -> int:
    return int.from_bytes(frame[4:6], "big", signed=True)
