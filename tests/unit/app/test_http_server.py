"""The HTTP server: how much of a request is read at once, and whose requests they are."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.app.http_server import (
    PARSED_S_MAX,
    READ_BYTES_FIRST,
    READ_BYTES_MAX,
    READ_BYTES_MIN,
    RECEIVED_BYTES_MAX,
    SmallReads,
    server_of,
)


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


class Other:
    """Stands for another connection."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport


@pytest.mark.parametrize(("others", "read_max"), [(0, READ_BYTES_MAX), (1_023, RECEIVED_BYTES_MAX // 1_024)])
def test_little_of_a_body_is_read_before_the_application_asks_for_it(others: int, read_max: int) -> None:
    """A thousand clients could otherwise fill the memory with bodies that nothing has counted yet."""
    body = bytes(1 << 20)

    async def run() -> tuple[int, int, bytes]:
        begun, may_read, parts = asyncio.Event(), asyncio.Event(), list[bytes]()

        async def application(_: Any, receive: Any, send: Any) -> None:
            begun.set()
            await may_read.wait()
            has_more = True
            while has_more:
                message = await receive()
                parts.append(message["body"])
                has_more = message["more_body"]
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        loop, server = asyncio.get_running_loop(), server_of(application, lambda *_: None, lambda _: None, drain_s=1)
        config, state = server.config, server.server_state
        listening = await loop.create_server(
            lambda: config.http_protocol_class(config=config, server_state=state, app_state={}, _loop=loop),
            "127.0.0.1",
        )
        async with listening:
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
            await begun.wait()
            (protocol,) = state.connections
            state.connections.update(Other(writer.transport) for _ in range(others))
            writer.write(body)
            await protocol.cycle.message_event.wait()
            await asyncio.sleep(0.05)  # in which more of it could be read
            held = len(protocol.cycle.body)
            may_read.set()
            answered = await reader.readline()
            state.connections.intersection_update({protocol})
            writer.close()
            await writer.wait_closed()
        return held, sum(map(len, parts)), answered

    held, received, answered = asyncio.run(asyncio.wait_for(run(), 20))

    assert 0 < held <= read_max
    assert (len(body), b"HTTP/1.1 200 OK\r\n") == (received, answered)


def test_less_is_read_of_what_takes_long_to_parse() -> None:
    """A body of tiny chunks would otherwise block the event loop; what follows it is read as before."""
    now_s = took_s = 0.0

    def parse(_: bytes) -> None:
        nonlocal now_s
        now_s += took_s

    protocol: Any = SimpleNamespace(connections={1}, data_received=parse)
    reads = SmallReads(protocol, lambda: now_s)

    def sizes() -> list[int]:
        found = []
        for _ in range(12):
            found.append(len(reads.get_buffer(-1)))
            reads.buffer_updated(found[-1])
        return found

    assert [READ_BYTES_FIRST << it for it in range(6)] + [READ_BYTES_MAX] * 6 == sizes()
    took_s = 2 * PARSED_S_MAX
    assert [READ_BYTES_MAX >> it for it in range(9)] + [READ_BYTES_MIN] * 3 == sizes()
    took_s = PARSED_S_MAX / 2
    assert READ_BYTES_MAX == sizes()[-1]
