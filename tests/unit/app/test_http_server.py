"""Tests of how much of a request's body one read of its connection may parse."""

import h11
import pytest

from tidemill.app.http_server import CHUNKS_MAX, StrictConnection

HEAD = b"POST /v1/topics/t/records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"1\r\n1\r\n"


def test_tiny_chunks_in_one_read_are_refused() -> None:
    """One read parses CHUNKS_MAX chunks; with one more, the request is refused."""
    connection = StrictConnection(h11.SERVER, 65_536)
    connection.receive_data(HEAD + CHUNK * (CHUNKS_MAX + 1))

    assert isinstance(connection.next_event(), h11.Request)
    assert [b"1"] * CHUNKS_MAX == [bytes(connection.next_event().data) for _ in range(CHUNKS_MAX)]
    with pytest.raises(h11.RemoteProtocolError, match="chunks in a row are tiny; send larger ones"):
        connection.next_event()
