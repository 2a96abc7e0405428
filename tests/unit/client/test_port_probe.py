"""The probe finds out which protocol a port speaks."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidemill.client.port_probe import CORRELATION_ID, PortProtocol, probe
from tidemill.wire.api import ALL
from tidemill.wire.messages import api_versions
from tidemill.wire.server_connection import ServerConnection


@contextmanager
def server(answer: bytes | None) -> Iterator[tuple[int, list[bytes]]]:
    """Accept one connection and reply to its first bytes with `answer`; if `answer` is None, send nothing and keep the
    connection open.
    """
    received: list[bytes] = []
    release = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            received.append(connection.recv(1_024))
            if answer is None:
                release.wait()
            else:
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], received
        finally:
            release.set()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "protocol"),
    [
        ((300).to_bytes(4) + CORRELATION_ID.to_bytes(4) + bytes(296), PortProtocol.KAFKA),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", PortProtocol.HTTP),
        (b"\x15\x03\x03\x00\x02\x02\x50", PortProtocol.TLS),
        (b"SSH-2.0-OpenSSH_9.6\r\n", PortProtocol.UNKNOWN),
        ((300).to_bytes(4) + bytes(300), PortProtocol.UNKNOWN),
        (b"HT", PortProtocol.UNKNOWN),
        (b"", PortProtocol.UNKNOWN),
    ],
)
def test_the_response_tells_the_protocol(answer: bytes, protocol: PortProtocol) -> None:
    """
    The first bytes of a response identify the protocol.  If the connection is closed without a response, the protocol
    is unknown.
    """
    with server(answer) as (port, _):
        assert protocol is probe("127.0.0.1", port, 5.0)


def test_a_port_that_does_not_respond_is_unknown() -> None:
    """
    A broker process that is stopped still accepts connections, so the probe ends after its timeout, without an error.
    """
    with server(None) as (port, _):
        assert PortProtocol.UNKNOWN is probe("127.0.0.1", port, 0.05)


def test_the_request_is_api_versions() -> None:
    """
    The probe sends ApiVersions v0, which every Kafka broker answers, even before authentication.
    """
    with server(b"") as (port, received):
        probe("127.0.0.1", port, 5.0)

    envelope = ServerConnection(ALL).decode(memoryview(received[0])[4:])
    assert (api_versions.API, 0, CORRELATION_ID) == (envelope.api, envelope.version, envelope.correlation_id)
    assert len(received[0]) - 4 == int.from_bytes(received[0][:4])


def test_a_closed_port_raises() -> None:
    """
    A probe of a port that accepts no connection raises, so that the caller can report the port together with the
    reason.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    with pytest.raises(OSError, match="refused"):
        probe("127.0.0.1", port, 5.0)
