"""Malformed frames, headers and bodies."""

import random
import struct

import pytest

from tests.integration.hostile.attacked_broker import (
    MIB,
    AttackedBroker,
    fetch_request,
    frame_of,
    header,
    list_offsets_request,
    metadata_request,
    produce_request,
    sized,
)
from tidemill.model import errors
from tidemill.wire.messages import api_versions, create_topics, metadata
from tidemill.wire.schema import Message

GROWN_MAX = 48 * MIB
METADATA, API_VERSIONS = 3, 18
UVARINT_MAX = b"\xff\xff\xff\xff\x0f"

REFUSED = {
    "size 0x7FFFFFFF": struct.pack(">i", 0x7FFFFFFF),
    "size -1": struct.pack(">i", -1),
    "size 0": struct.pack(">i", 0),
    "size 100 MiB + 1": struct.pack(">i", 100 * MIB + 1),
    "no header": sized(b"\0\3\0"),
    "a header that ends in its client id": sized(struct.pack(">hhih", METADATA, 12, 7, 100) + b"x"),
    "a client id of -2 bytes": sized(struct.pack(">hhih", METADATA, 12, 7, -2)),
    "a client id that is not UTF-8": sized(header(METADATA, 1, client_id=b"\xff\xfe") + b"\0\0\0\0"),
    "unknown API": sized(header(999, 0)),
    "negative API": sized(header(-1, 0)),
    "an unsupported version": sized(header(METADATA, 99)),
    "a negative version": sized(header(METADATA, -1)),
    "twenty million tagged fields in the header": sized(header(API_VERSIONS, 3) + b"\x80\xda\xc4\x09"),
    "2^32 - 1 tagged fields": sized(header(API_VERSIONS, 3) + UVARINT_MAX),
    "a tagged field of 2^32 - 1 bytes": sized(header(API_VERSIONS, 3) + b"\1\0" + UVARINT_MAX),
    "an endless varint": sized(header(API_VERSIONS, 3) + b"\xff" * 10),
    "an array of 2^31 - 1": sized(header(METADATA, 1) + struct.pack(">i", 0x7FFFFFFF)),
    "an array of -2": sized(header(METADATA, 1) + struct.pack(">i", -2)),
    "a compact array of 2^32 - 1": sized(header(METADATA, 12) + b"\0" + UVARINT_MAX),
    "a compact string of 2^32 - 1": sized(header(METADATA, 12) + b"\0\2" + bytes(16) + UVARINT_MAX),
    "100,000 elements that are there": sized(header(METADATA, 1) + struct.pack(">i", 100_000) + b"\0\0" * 100_000),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_malformed_request_closes_its_connection(broker: AttackedBroker, name: str) -> None:
    """A malformed request closes its connection, and its announced size causes no allocation before bytes arrive."""
    with broker.connect() as client:
        client.socket.sendall(REFUSED[name])

        assert client.is_closed_by_broker()

    broker.unhurt(grown_max=GROWN_MAX)


def test_api_versions_in_an_unsupported_version_is_answered(broker: AttackedBroker) -> None:
    """ApiVersions in an unsupported version gets a response of version 0 with the supported versions, so that a newer
    client can fall back (KIP-511).
    """
    with broker.connect() as client:
        client.socket.sendall(sized(header(API_VERSIONS, 99) + b"whatever"))
        frame = memoryview(client.frame())

    response = api_versions.API.decode_response(0, frame, 4)
    assert (errors.UNSUPPORTED_VERSION, True) == (response.error_code, len(response.api_keys) > 10)


def test_random_bytes_close_their_connections(broker: AttackedBroker) -> None:
    """The broker closes a connection that sends random bytes, and logs no error."""
    chance = random.Random(1)
    for _ in range(100):
        with broker.connect() as client:
            client.socket.sendall(b"\xff" + chance.randbytes(chance.randrange(1, 5_000)) + b"\xff" * 4)
            assert client.is_closed_by_broker()

    broker.unhurt(grown_max=GROWN_MAX)


def requests(topic: str) -> list[tuple[Message, int]]:
    """Return requests of the most important kinds, in flexible and in older versions."""
    return [
        (api_versions.Request(client_software_name="x", client_software_version="1"), 3),
        (metadata_request(topic, "other"), 1),
        (metadata_request(topic, "other"), 9),
        (produce_request(topic, b"a", b"b"), 3),
        (produce_request(topic, b"a", b"b"), 9),
        (fetch_request(topic), 4),
        (fetch_request(topic), 12),
        (list_offsets_request(topic, 1_000), 1),
        (list_offsets_request(topic, 1_000), 7),
    ]


def test_a_truncated_request_closes_its_connection(broker: AttackedBroker) -> None:
    """A frame whose body ends early closes its connection: the frame is complete, so the broker waits for no more
    bytes.
    """
    for request, version in requests(broker.topic()):
        body = frame_of(request, version)[4:]
        for end in range(1, len(body)):
            with broker.connect() as client:
                client.socket.sendall(sized(body[:end]) + struct.pack(">i", -1))
                assert client.is_closed_by_broker(), f"{request!r} v{version} cut at {end}"

    broker.unhurt(grown_max=GROWN_MAX)


def test_mutated_requests_are_answered_or_refused(broker: AttackedBroker) -> None:
    """2,000 requests with changed bytes get a response or a closed connection, and never cause an internal error."""
    chance = random.Random(2)
    kinds = [frame_of(request, version)[4:] for request, version in requests(broker.topic())]
    for _ in range(2_000):
        body = bytearray(chance.choice(kinds))
        for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
            body[chance.randrange(len(body))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        with broker.connect() as client:
            client.socket.sendall(sized(bytes(body)) + struct.pack(">i", -1))
            assert client.is_closed_by_broker()

    broker.unhurt(grown_max=GROWN_MAX)


def test_requests_with_many_elements_do_not_block_others(broker: AttackedBroker) -> None:
    """Requests with 60,000 elements, beyond all limits on topics and partitions, do not delay other clients."""
    many = range(60_000)
    topics = [metadata.Request.Topic(name=f"many-{number}") for number in many]
    created = [
        create_topics.Request.Topic(
            name=f"many-{number}", num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for number in many
    ]
    asked: list[tuple[Message, int]] = [
        (metadata.Request(topics=topics, allow_auto_topic_creation=True), 5),
        (create_topics.Request(topics=created, timeout_ms=1_000), 5),
        (fetch_request("nowhere", partitions=len(many)), 11),
    ]
    with broker.connect() as client:
        for request, version in asked:
            client.ask(request, version)

    broker.unhurt(grown_max=320 * MIB)
