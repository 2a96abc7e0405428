"""Connections to another broker's Kafka listener: each serves one request at a time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tidemill.http.v1 import listener_link, silence
from tidemill.http.v1.listener_link import LinkLost, ListenerLinks
from tidemill.wire.messages import api_versions, metadata

VERSION = 5  # of Metadata, older than the newest one that this broker speaks
REQUEST = metadata.Request(topics=None)


class Listener:
    """A broker's listener, which answers ApiVersions at once, and another request when it is allowed to."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.versions: list[int] = []  # of the requests, ApiVersions excepted
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.address: tuple[str, int] | None = None
        self.is_up = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                key, version = (int.from_bytes(frame[at : at + 2]) for at in (0, 2))
                if key == api_versions.API.key:
                    listed = [
                        api_versions.Response.ApiKey(api_key=metadata.API.key, min_version=0, max_version=VERSION)
                    ]
                    body = api_versions.API.encode_response(
                        version, api_versions.Response(error_code=0, api_keys=listed), 0
                    )
                else:
                    self.versions.append(version)
                    self.asked.set()
                    await self.may_answer.wait()
                    body = metadata.API.encode_response(
                        version, metadata.Response(brokers=[], controller_id=7, topics=[]), 0
                    )
                answer = bytearray(b"".join(bytes(part) for part in body))
                answer[4:8] = frame[4:8]  # the correlation id
                writer.write(bytes(answer))
        except (OSError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()


def run(test: Callable[[Listener, ListenerLinks], Awaitable[None]]) -> None:
    async def running() -> None:
        listener = Listener()
        server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
        listener.address = server.sockets[0].getsockname()
        async with server:
            links = ListenerLinks(lambda: listener.address, lambda: listener.is_up)
            await test(listener, links)
            for it in (*links._idle, *listener.writers):
                it.close()
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(running(), 20))


def test_a_request_that_waits_holds_up_no_other() -> None:
    async def test(listener: Listener, links: ListenerLinks) -> None:
        waiting = asyncio.create_task(links.ask(metadata.API, REQUEST))
        await listener.asked.wait()
        listener.may_answer.set()
        first, second = await waiting, await links.ask(metadata.API, REQUEST)
        assert (7, 7, 1) == (first.controller_id, second.controller_id, len(listener.writers))
        both = await asyncio.gather(*(links.ask(metadata.API, REQUEST) for _ in range(2)))
        assert ([7, 7], 2) == ([it.controller_id for it in both], len(listener.writers))

    run(test)


def test_the_newest_common_version_is_used() -> None:
    async def test(listener: Listener, links: ListenerLinks) -> None:
        listener.may_answer.set()
        await links.ask(metadata.API, REQUEST)
        assert [VERSION] == listener.versions

    run(test)


def test_a_connection_that_was_closed_while_idle_is_not_used() -> None:
    async def test(listener: Listener, links: ListenerLinks) -> None:
        listener.may_answer.set()
        await links.ask(metadata.API, REQUEST)
        listener.writers[0].close()
        await listener.writers[0].wait_closed()
        await asyncio.sleep(0.05)  # the end of the connection travels
        assert 7 == (await links.ask(metadata.API, REQUEST)).controller_id

    run(test)


def test_a_cancelled_request_closes_its_connection() -> None:
    async def test(listener: Listener, links: ListenerLinks) -> None:
        waiting = asyncio.create_task(links.ask(metadata.API, REQUEST))
        await listener.asked.wait()
        waiting.cancel()
        listener.may_answer.set()
        await listener.left.wait()
        assert 7 == (await links.ask(metadata.API, REQUEST)).controller_id
        assert 2 == len(listener.writers)

    run(test)


def test_a_request_is_lost_together_with_its_connection() -> None:
    async def test(listener: Listener, links: ListenerLinks) -> None:
        waiting = asyncio.create_task(links.ask(metadata.API, REQUEST))
        await listener.asked.wait()
        listener.writers[0].close()
        with pytest.raises(LinkLost) as lost:
            await waiting
        assert lost.value.is_sent

    run(test)


def test_a_request_without_a_response_is_lost_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_link, "RESPONSE_S_MAX", 0.1)

    async def test(listener: Listener, links: ListenerLinks) -> None:
        with pytest.raises(LinkLost, match="no response") as lost:
            await links.ask(metadata.API, REQUEST)
        assert lost.value.is_sent
        with pytest.raises(LinkLost, match="no response within 0 s"):
            await links.ask(metadata.API, REQUEST, 0.01)

    run(test)


def test_a_request_to_a_broker_that_has_become_silent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "GONE_S_MAX", 0.2)
    monkeypatch.setattr(silence, "CHECK_S", 0.01)

    async def test(listener: Listener, links: ListenerLinks) -> None:
        waiting = asyncio.create_task(links.ask(metadata.API, REQUEST))
        await listener.asked.wait()
        listener.is_up = False
        with pytest.raises(LinkLost, match="neither a response nor a heartbeat") as lost:
            await waiting
        assert lost.value.is_sent

    run(test)


def test_a_request_to_a_slow_broker_that_is_silent_now_and_then_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does silence count that ended before."""
    monkeypatch.setattr(silence, "GONE_S_MAX", 0.2)
    monkeypatch.setattr(silence, "CHECK_S", 0.01)

    async def test(listener: Listener, links: ListenerLinks) -> None:
        checks = 0

        def is_up() -> bool:
            nonlocal checks
            checks += 1
            if checks == 50:
                listener.may_answer.set()
            return checks % 5 == 0

        links = ListenerLinks(lambda: listener.address, is_up)
        assert 7 == (await links.ask(metadata.API, REQUEST)).controller_id
        assert 50 <= checks
        links._idle[0].close()

    run(test)


@pytest.mark.parametrize("address", [None, ("127.0.0.1", 1)])
def test_a_broker_that_cannot_be_reached_got_no_request(address: tuple[str, int] | None) -> None:
    async def test(listener: Listener, links: ListenerLinks) -> None:
        listener.address = address
        with pytest.raises(LinkLost) as lost:
            await links.ask(metadata.API, REQUEST)
        assert not lost.value.is_sent

    run(test)
