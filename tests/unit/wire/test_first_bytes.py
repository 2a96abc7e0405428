"""The first bytes of a client reveal its protocol."""

import ssl

import pytest

from tidemill.wire.api import ALL
from tidemill.wire.first_bytes import ClientProtocol, protocol_of
from tidemill.wire.messages import api_versions


def client_hello() -> bytes:
    """Return what a real TLS client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="broker")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"])
def test_an_http_request_is_recognized_by_its_method(method: str) -> None:
    """
    The first four bytes suffice, because a Kafka listener has read only the size field of a frame when it refuses the
    request.
    """
    assert ClientProtocol.HTTP is protocol_of(f"{method} / HTTP/1.1\r\n".encode()[:4])


def test_a_tls_handshake_is_recognized() -> None:
    """
    A TLS handshake is recognized by the record type and the major version, which are the same in every version of TLS.
    """
    assert ClientProtocol.TLS is protocol_of(client_hello())
    assert ClientProtocol.TLS is protocol_of(memoryview(client_hello())[:4])


def test_the_requests_of_kafka_clients_are_recognized() -> None:
    """
    A Kafka client usually begins with ApiVersions.  Requests of all other Kafka APIs, even in their newest versions,
    are recognized as well, by their API key and version.
    """
    request = api_versions.Request(client_software_name="x", client_software_version="1")
    frame = b"".join(bytes(part) for part in api_versions.API.encode_request(4, request, 7, "client"))
    newest = [
        (50).to_bytes(4) + api.key.to_bytes(2) + api.versions[-1].to_bytes(2) for api in ALL.values() if api.key < 128
    ]

    assert {ClientProtocol.KAFKA} == {protocol_of(first) for first in [frame, *newest]}


@pytest.mark.parametrize(
    "first", [b"", b"\x16", b"GET", b"\0\0\0\x10\0\x12", b"SSH-2.0-OpenSSH", b"\xff" * 8, b"\0\0\0\x10\xff\xff\0\0"]
)
def test_other_bytes_are_not_named(first: bytes) -> None:
    """
    If the bytes are too few, or belong to an unknown protocol, no protocol is named.
    """
    assert None is protocol_of(first)
