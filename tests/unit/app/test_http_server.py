"""The HTTP server: how much of a request one read may parse, and whose requests they are."""

import asyncio
from typing import Any

import h11
import pytest

from tidemill.app.http_server import CHUNKS_MAX, StrictConnection, server_of

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


@pytest.mark.parametrize("trusted", [None, "*"])
def test_a_header_does_not_say_where_a_client_is(monkeypatch: pytest.MonkeyPatch, trusted: str | None) -> None:
    """
    A client elsewhere would be served as one on this machine, without the token; the variable is uvicorn's own, and
    common in containers.
    """
    if trusted is not None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    clients: list[object] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        clients.append(scope["client"])

    async def nothing(*_: object) -> None: ...

    server = server_of(application, lambda *_: None, lambda _: None, drain_s=1)
    headers = [(b"host", b"127.0.0.1"), (b"x-forwarded-for", b"127.0.0.1")]
    scope = {"type": "http", "path": "/v1/topics", "raw_path": b"/v1/topics", "query_string": b"", "headers": headers}
    asyncio.run(server.config.loaded_app(scope | {"client": ("10.0.0.7", 1)}, nothing, nothing))

    assert [("10.0.0.7", 1)] == clients
