"""The broker's end of a connection."""

from itertools import permutations

import pytest

from tidemill.model import errors
from tidemill.wire import api as apis
from tidemill.wire.messages import api_versions, heartbeat, metadata, produce
from tidemill.wire.primitives import ProtocolError, uvarint
from tidemill.wire.schema import Api, Message
from tidemill.wire.server_connection import ServerConnection

ALIVE = heartbeat.Request(group_id="g", generation_id=1, member_id="m")


def frame(
    api: Api, version: int, request: Message, correlation_id: int = 7, client_id: str | None = "me"
) -> memoryview:
    return memoryview(bytearray(b"".join(api.encode_request(version, request, correlation_id, client_id))))[4:]


@pytest.mark.parametrize("version", heartbeat.API.versions)
@pytest.mark.parametrize("client_id", ["me", "", None, "größe" * 20])
def test_a_request_is_read_with_its_header(version: int, client_id: str | None) -> None:
    """
    A request is read with the fields of its header, in which the client id is a non-compact string in every version.
    """
    connection = ServerConnection(apis.ALL)
    data = frame(heartbeat.API, version, ALIVE, 11, client_id)

    envelope = connection.receive(data)

    assert (heartbeat.API, version, 11, client_id, ALIVE, len(data)) == (
        envelope.api,
        envelope.version,
        envelope.correlation_id,
        envelope.client_id,
        envelope.request,
        envelope.size,
    )


def test_apis_that_are_not_listed_are_read() -> None:
    """
    A request of an API that ApiVersions omits is read, and the refusal of a version does not list the API either.
    """
    listed = {18: apis.ALL[18]}
    connection = ServerConnection(listed, unlisted={heartbeat.API.key: heartbeat.API})

    assert ALIVE == connection.receive(frame(heartbeat.API, 4, ALIVE)).request
    refused = connection.decode(memoryview(b"\x00\x12\x00\x63" + bytes(4) + b"\xff\xff" + bytes(2)))
    assert refused.answer is not None
    assert b"\x00\x0c" not in b"".join(bytes(part) for part in refused.answer)[12:]


def test_unknown_tags_in_the_header_are_skipped() -> None:
    """
    Unknown tagged fields in a request header v2 are skipped.
    """
    connection = ServerConnection(apis.ALL)
    data = bytes(frame(heartbeat.API, 4, ALIVE))
    with_tags = data[:12] + uvarint(1) + uvarint(5) + uvarint(2) + b"ab" + data[13:]

    envelope = connection.receive(memoryview(with_tags))

    assert envelope.request == ALIVE


def test_records_are_views_on_the_frame() -> None:
    """
    The records of a request are views of the frame: writing into them writes into the frame.
    """
    connection = ServerConnection(apis.ALL)
    partition = produce.Request.Topic.Partition(index=0, records=memoryview(b"a batch"))
    topic = produce.Request.Topic(name="t", partition_data=[partition])
    data = frame(produce.API, 9, produce.Request(acks=1, timeout_ms=1, topic_data=[topic]))

    received = connection.receive(data).request.topic_data[0].partition_data[0].records
    received[0:1] = b"A"

    assert b"A batch" in bytes(data)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_responses_leave_in_the_order_of_their_requests(order: tuple[int, ...]) -> None:
    """
    Requests may be handled in any order.  Their responses are sent in the order of the requests, each as soon as all
    earlier requests have been handled.
    """
    connection = ServerConnection(apis.ALL)
    envelopes = [connection.receive(frame(heartbeat.API, 4, ALIVE, index)) for index in range(4)]
    answers = [envelope.encode(heartbeat.Response(error_code=0)) for envelope in envelopes]

    sent = [connection.respond(envelopes[index], answers[index]) for index in order]

    ready = [min(set(range(5)) - set(order[: turn + 1])) for turn in range(4)]
    assert ready == [len(b"".join(b"".join(turn) for turn in sent[: index + 1])) // 15 for index in range(4)]
    assert b"".join(b"".join(answer) for answer in answers) == b"".join(b"".join(turn) for turn in sent)
    assert not connection.pending


def test_a_request_without_response_delays_later_responses() -> None:
    """
    A Produce request with acks=0 has no response, but later responses wait until it is done.
    """
    connection = ServerConnection(apis.ALL)
    silent, spoken = (connection.receive(frame(heartbeat.API, 4, ALIVE, index)) for index in range(2))
    answer = spoken.encode(heartbeat.Response(error_code=0))

    early = connection.respond(spoken, answer)
    late = connection.respond(silent, None)

    assert ([], answer) == (early, late)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    """
    ApiVersions in an unknown version gets UNSUPPORTED_VERSION and all keys in version 0, which any client can read
    (KIP-511).
    """
    connection = ServerConnection({18: api_versions.API, 3: metadata.API})
    data = (18).to_bytes(2, "big") + (99).to_bytes(2, "big") + (5).to_bytes(4, "big") + b"\xff\xff\0whatever"

    envelope = connection.receive(memoryview(data))
    sent = b"".join(connection.respond(envelope, envelope.answer))

    assert (len(sent) - 4).to_bytes(4, "big") + (5).to_bytes(4, "big") == sent[:8]
    assert api_versions.Response(
        error_code=errors.UNSUPPORTED_VERSION, api_keys=apis.advertised([3, 18])
    ) == api_versions.API.decode_response(0, sent, 8)


@pytest.mark.parametrize("version", api_versions.API.versions)
def test_the_header_of_api_versions_never_changes(version: int) -> None:
    """
    The response header of ApiVersions never has tagged fields, even if the body is flexible, so that every client can
    read it.
    """
    response = api_versions.Response(error_code=0, api_keys=())

    sent = b"".join(api_versions.API.encode_response(version, response, correlation_id=9))

    assert response == api_versions.API.decode_response(version, sent, 8)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no header"),
        (b"\0\3\0\0\0\0\0\1\xff", "no header"),
        (b"\3\xe7\0\0\0\0\0\1\xff\xff", "API key 999"),
        (b"\0\3\0\x63\0\0\0\1\xff\xff", "metadata v0-13, not v99"),
        (b"\0\3\xff\xff\0\0\0\1\xff\xff", "metadata v0-13, not v-1"),
        (b"\0\3\0\0\0\0\0\1\x7f\xff", "client id of 32767"),
        (b"\0\3\0\0\0\0\0\1\xff\xfe", "client id of -2"),
        (b"\0\3\0\0\0\0\0\1\0\1\xff\0\0\0\0", "not UTF-8"),
        (b"\0\3\0\x0c\0\0\0\1\xff\xff", "inside its header"),
        (b"\0\3\0\x0c\0\0\0\1\xff\xff\x81\x80\x80\x04\0", "tagged fields"),
        (b"\0\3\0\x0c\0\0\0\1\xff\xff\1\1\x7f", "127 bytes, but only 0"),
    ],
)
def test_an_invalid_request_is_refused(data: bytes, said: str) -> None:
    """
    An invalid request raises a ProtocolError that says what is wrong.
    """
    connection = ServerConnection({3: metadata.API})

    with pytest.raises(ProtocolError, match=said):
        connection.receive(memoryview(data))


def test_an_encoded_body_can_be_framed_for_many_requests() -> None:
    """
    An encoded body can be framed for many requests, so that a Metadata response is encoded once for many clients.
    """
    response = metadata.Response(brokers=(), topics=())
    body = metadata.API.encode_response_body(12, response)

    sent = [b"".join(metadata.API.frame_response(12, body, correlation_id)) for correlation_id in (1, 2)]

    assert [b"".join(metadata.API.encode_response(12, response, correlation_id)) for correlation_id in (1, 2)] == sent


def test_bytes_after_a_request_are_ignored() -> None:
    """
    librdkafka 2.16 sends Metadata v13 for all topics with three surplus bytes, which Kafka's brokers ignore.
    """
    connection = ServerConnection({3: metadata.API})
    sent = bytes.fromhex("0003000d00000003000772646b61666b6100" + "00000000" + "010000")

    envelope = connection.receive(memoryview(sent))

    assert metadata.Request(topics=None, allow_auto_topic_creation=False) == envelope.request
