"""The client's end of a connection, tested against the broker's end."""

import pytest

from tidemill.wire import api as apis
from tidemill.wire.client_connection import ClientConnection
from tidemill.wire.messages import api_versions, fetch, heartbeat
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Message, Part
from tidemill.wire.server_connection import ServerConnection

ALIVE = heartbeat.Request(group_id="g", generation_id=1, member_id="m")


def joined(parts: list[Part]) -> memoryview:
    """Return a frame without its size prefix, as `receive` expects it."""
    return memoryview(bytearray(b"".join(parts)))[4:]


def answered(server: ServerConnection, parts: list[Part], response: Message) -> memoryview:
    envelope = server.receive(joined(parts))
    return joined(server.respond(envelope, envelope.answer or envelope.encode(response)))


def test_a_response_is_matched_to_its_request() -> None:
    """
    A response is matched to its request by the correlation id, and decoded in the request's version.
    """
    client, server = ClientConnection("me"), ServerConnection(apis.ALL)
    asked = [client.send(heartbeat.API, ALIVE, version=version) for version in heartbeat.API.versions]

    answers = [
        client.receive(answered(server, parts, heartbeat.Response(error_code=index)))
        for index, (_, parts) in enumerate(asked)
    ]

    assert [(correlation_id, index) for index, (correlation_id, _) in enumerate(asked)] == [
        (answer.correlation_id, answer.response.error_code) for answer in answers
    ]
    assert client.in_flight_count == 0


def test_requests_use_the_newest_common_version() -> None:
    """
    Before the broker's versions are known, the client uses its own newest version.  Without a common version, it raises
    ProtocolError.
    """
    client = ClientConnection()
    versions = api_versions.Response.ApiKey
    before = client.version_of(fetch.API)

    client.learn(
        api_versions.Response(
            error_code=0,
            api_keys=[
                versions(api_key=1, min_version=0, max_version=11),
                versions(api_key=12, min_version=50, max_version=60),
            ],
        )
    )

    assert (before, client.version_of(fetch.API)) == (18, 11)
    for unspoken in (heartbeat.API, api_versions.API):
        with pytest.raises(ProtocolError, match="the broker supports"):
            client.version_of(unspoken)


def test_a_refusal_of_api_versions_contains_the_brokers_versions() -> None:
    """
    A refusal of ApiVersions contains the broker's versions, encoded in version 0, whatever version was requested
    (KIP-511).
    """
    client = ClientConnection()
    old = type(api_versions.API)(
        key=18,
        versions=range(1),
        flexible_from=None,
        request=api_versions.Request,
        response=api_versions.Response,
    )
    server = ServerConnection({18: old})
    _, parts = client.send(api_versions.API, api_versions.Request(), version=4)

    answer = client.receive(answered(server, parts, api_versions.Response(error_code=0, api_keys=())))

    assert [api_versions.Response.ApiKey(api_key=18, min_version=0, max_version=4)] == list(answer.response.api_keys)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\0\0\0\x63\0\0", b"\0\0\0\0", b"\0\0\0\0\1"])
def test_an_invalid_response_is_refused(data: bytes) -> None:
    """
    A frame that is too short, or that matches no request in flight, raises ProtocolError.
    """
    client = ClientConnection()
    client.send(heartbeat.API, ALIVE, version=4)

    with pytest.raises(ProtocolError):
        client.receive(memoryview(data))
