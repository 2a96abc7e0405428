"""Links on real sockets: connecting, both ends dialling, loss and return, bounds, and who is refused."""

import asyncio
import contextlib
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import uvloop

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.peer.hello import Hello
from tidemill.peer.link import Buffer, Link
from tidemill.peer.session import PeerLeft, Session
from tidemill.runtime import peer_socket
from tidemill.runtime.os_entropy import OsEntropy
from tidemill.runtime.peer_socket import QUEUE_BYTES_MAX, PeerSocket
from tidemill.runtime.peer_transport import UNPROVEN_MAX, PeerTransport

KEY = b"a key of the whole cluster"
MIB = 1 << 20


class Broker:
    """An owner of links that notes what it hears."""

    def __init__(self, loop: asyncio.AbstractEventLoop, number: int, life: int = 1, key: bytes = KEY) -> None:
        self.me = Hello(
            cluster_id="estuary",
            voter=ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)),
            incarnation=number * 1000 + life,
            address="",
        )
        self.links: list[Link] = []
        self.frames: list[bytes] = []
        self.events: list[str] = []
        self.told: list[str] = []
        self.gaps = 0
        self.refusal: str | None = None
        self.on_frame: Callable[[Link, memoryview], None] = lambda link, frame: None
        self.on_linked: Callable[[Link], object] = lambda link: None
        self.transport = PeerTransport(loop, self, key, OsEntropy(), self.told.append)

    def hello(self) -> Hello:
        return self.me

    def linked(self, link: Link) -> str | None:
        if self.refusal is None:
            assert link.hello.voter not in [other.hello.voter for other in self.links if other.hello.voter]
            self.links.append(link)
            self.events.append(f"linked {link.hello.incarnation}")
            self.on_linked(link)
        return self.refusal

    def received(self, link: Link, frame: memoryview) -> None:
        assert link in self.links
        self.frames.append(bytes(frame))
        self.on_frame(link, frame)

    def lost(self, link: Link, why: str) -> None:
        self.links.remove(link)
        self.events.append(f"lost {link.hello.incarnation}: {why}")
        self.transport.loop.call_soon(self.count_a_gap)

    def count_a_gap(self) -> None:
        self.gaps += not self.links

    async def listen(self, port: int = 0) -> str:
        await self.transport.bind("127.0.0.1", port)
        host, port = self.transport.addresses[0]
        self.me = Hello(**{name: getattr(self.me, name) for name in self.me.__slots__} | {"address": f"{host}:{port}"})
        await self.transport.serve()
        return self.me.address


class Proxy:
    """A relay in front of a broker that holds back every piece for up to 5 ms, each way on its own, in order."""

    address: str
    server: asyncio.Server

    def __init__(self, broker: Broker, chance: Random) -> None:
        self.broker = broker
        self.chance = chance
        self.writers: list[asyncio.StreamWriter] = []
        self.carriers: list[asyncio.Future[Any]] = []

    async def open(self) -> "Proxy":
        self.server = await asyncio.start_server(self.take, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        far_reader, far_writer = await asyncio.open_connection(*self.broker.transport.addresses[0])
        self.writers.append(far_writer)
        self.carriers.append(asyncio.gather(self.carry(reader, far_writer), self.carry(far_reader, writer)))

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await asyncio.sleep(self.chance.random() * 0.005)
                writer.write(data)
        await asyncio.sleep(self.chance.random() * 0.005)
        writer.close()

    def close(self) -> None:
        self.server.close()
        for carrier in self.carriers:
            carrier.cancel()
        for writer in self.writers:
            writer.transport.abort()


class Scene:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.brokers: list[Broker] = []
        self.proxies: list[Proxy] = []
        self.errors: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))

    def broker(self, number: int, **settings: Any) -> Broker:
        self.brokers.append(Broker(self.loop, number, **settings))
        return self.brokers[-1]

    async def pair(self) -> tuple[Broker, Broker]:
        """1 has dialled 2."""
        one, two = self.broker(1), self.broker(2)
        one.transport.reach([await two.listen()])
        await self.until(lambda: one.links and two.links)
        return one, two

    async def until(self, condition: Callable[[], object], seconds: float = 8) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - conditions of both sides and of the loop itself
                await asyncio.sleep(0.001)

    async def end(self) -> None:
        for broker in self.brokers:
            broker.transport.close()
        for proxy in self.proxies:
            proxy.close()
        await self.until(lambda: not any(broker.transport._sockets or broker.links for broker in self.brokers))
        await asyncio.sleep(0.01)  # sockets close in the loop's next turns


def play(act: Callable[[Scene], Coroutine[Any, Any, None]]) -> Scene:
    async def main() -> Scene:
        scene = Scene()
        try:
            await act(scene)
        finally:
            await scene.end()
        return scene

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


@asynccontextmanager
async def raw_connection(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def proven_by_hand(scene: Scene, broker: Broker, number: int) -> tuple[Session, socket.socket]:
    """A link whose other end reads only what this coroutine asks for."""
    hello = Hello(cluster_id="", voter=None, incarnation=number, address="by hand:1")
    session = Session(KEY, hello, OsEntropy().random_bytes(32), dial=1)
    raw = socket.socket()
    raw.setblocking(False)
    await scene.loop.sock_connect(raw, broker.transport.addresses[0])
    await shake_hands(scene, session, raw)
    return session, raw


async def shake_hands(scene: Scene, session: Session, raw: socket.socket) -> None:
    said: Sequence[Buffer] = session.opening() if session.is_dialler else []
    while said or session.theirs is None:
        await scene.loop.sock_sendall(raw, b"".join(map(bytes, said)))
        if session.theirs is not None:
            return
        said = session.received(await scene.loop.sock_recv_into(raw, session.get_buffer()))


def test_frames_go_both_ways() -> None:
    """
    From within `linked` on, in their order, parts joined; each end knows the other; TCP_NODELAY is set at both.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        for broker in (one, two):
            broker.on_linked = lambda link: link.send([b"at once"])
        one.transport.reach([await two.listen()])
        await scene.until(lambda: one.links and two.links)
        assert one.links[0].send([b"a", bytearray(b"bc"), memoryview(b"def")])
        assert two.links[0].send([bytes(3 * MIB)]) and two.links[0].send([])

        await scene.until(lambda: len(one.frames) == 3 and len(two.frames) == 2)

        assert [b"at once", bytes(3 * MIB), b""] == one.frames
        assert [b"at once", b"abcdef"] == two.frames
        assert (two.me, one.me) == (one.links[0].hello, two.links[0].hello)
        for link in [*one.links, *two.links]:
            assert isinstance(link, PeerSocket) and link._transport is not None
            raw = link._transport.get_extra_info("socket")
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    assert [] == play(act).errors


def test_two_that_dial_each_other_are_never_without_a_link() -> None:
    """
    Two hundred times at once, over proxies that delay every piece by chance: once there is a link at one end, there is
    one until somebody closes it; in the end it is the same one at both, no other is open, and it carries frames.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        chance = Random(1)
        for broker in (one, two):
            await broker.listen()
            scene.proxies.append(await Proxy(broker, chance).open())
        stories = set()
        for turn in range(200):
            one.transport.reach([scene.proxies[1].address])
            two.transport.reach([scene.proxies[0].address])
            await scene.until(
                lambda: (
                    len(one.links) == len(two.links) == 1
                    and len(one.transport._sockets) == len(two.transport._sockets) == 1
                )
            )
            assert 0 == one.gaps == two.gaps, (turn, one.events, two.events)
            assert one.transport._dials == two.transport._dials == turn + 1
            name = b"turn %d" % turn
            assert one.links[0].send([name]) and two.links[0].send([name])
            await scene.until(lambda name=name: one.frames[-1:] == two.frames[-1:] == [name])  # type: ignore[misc]
            assert isinstance(two.links[0], PeerSocket) and isinstance(one.links[0], PeerSocket)
            assert two.links[0].session.is_dialler and not one.links[0].session.is_dialler
            stories.add((len(one.events), len(two.events)))
            for broker in (one, two):
                broker.transport.reach([])
            two.links[0].close("again")
            await scene.until(lambda: not one.links and not one.transport._sockets)
            for broker in (one, two):
                broker.events.clear()
                broker.gaps = 0
        assert {(1, 1), (1, 3), (3, 3)} == stories, "chance has not shown every order"
        assert [] == one.told + two.told

    assert [] == play(act).errors


@pytest.mark.parametrize("first", [1, 2])
def test_the_dial_of_the_higher_broker_id_stays(first: int) -> None:
    """
    Whichever came first; a second link of the lower one is turned away, of the higher one takes the place.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        address = {1: await one.listen(), 2: await two.listen()}
        broker, other = (one, two) if first == 1 else (two, one)
        broker.transport.reach([address[3 - first]])
        await scene.until(lambda: one.links and two.links)
        stood = broker.links[0]
        other.transport.stands = lambda dialler: False  # type: ignore[method-assign]
        other.transport.reach([address[first]])
        if first == 2:
            await scene.until(lambda: other.transport._dials > 3)
            assert [stood] == broker.links and 1 == len(broker.events) == len(other.events)
        else:
            await scene.until(lambda: len(broker.events) == 3)
            assert "linked" in broker.events[2] and [stood] != broker.links

    assert [] == play(act).errors


def test_a_link_that_was_parked_ends_with_the_one_that_took_its_place() -> None:
    """
    The higher broker id may have died before it heard that its dial was accepted: both would wait for each other.
    """

    async def act(scene: Scene) -> None:
        one = scene.broker(1)
        await one.listen()
        voter = ReplicaKey(BrokerId(2), DirectoryId(bytes([2]) * 16))
        higher = Hello(cluster_id="estuary", voter=voter, incarnation=2001, address="by hand:1")
        with socket.socket() as listener, socket.socket() as dialled:
            for raw in (listener, dialled):
                raw.setblocking(False)
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            one.transport.reach([f"127.0.0.1:{listener.getsockname()[1]}"])
            accepted, _ = await scene.loop.sock_accept(listener)
            with accepted:
                session = Session(KEY, higher, OsEntropy().random_bytes(32))
                await shake_hands(scene, session, accepted)
                await scene.until(lambda: one.links)
                await scene.loop.sock_connect(dialled, one.transport.addresses[0])
                await shake_hands(scene, Session(KEY, higher, OsEntropy().random_bytes(32), dial=1), dialled)
                await scene.until(lambda: len(one.events) == 3)
                await scene.loop.sock_sendall(accepted, b"".join(map(bytes, session.seal([b"to the one that waits"]))))
                dialled.close()
                with pytest.raises(PeerLeft, match="the other end closed the connection"):
                    while count := await scene.loop.sock_recv_into(accepted, session.get_buffer()):
                        session.received(count)
                        assert [] == list(session.frames())
                one.transport.reach([])

        assert ["linked 2001", "lost 2001: another link took its place", "linked 2001"] == one.events[:3]
        assert "lost 2001: the other end closed the connection" == one.events[3]
        assert [] == one.frames

    assert [] == play(act).errors


def test_a_broker_under_two_addresses_is_dialled_once_under_each() -> None:
    """
    It has one link; both addresses are taken for reached.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        address = await two.listen()
        one.transport.reach([address, address.replace("127.0.0.1", "localhost")])
        await scene.until(lambda: one.links and one.transport._dials == 2 and len(one.transport._sockets) == 1)
        await asyncio.sleep(0.3)  # longer than the back-off after a first failure

        assert 2 == one.transport._dials
        assert 1 == len(one.links) == len(two.links)
        assert one.links[0].send([b"x"])
        await scene.until(lambda: two.frames == [b"x"])

    assert [] == play(act).errors


def test_a_link_that_is_lost_is_heard_of_at_once_and_dialled_again() -> None:
    """
    By a close that says why, and by a reset that does not.
    """

    async def act(scene: Scene) -> None:
        one, two = await scene.pair()
        two.links[0].close("enough")
        assert [] == two.links and "lost 1001: enough" == two.events[-1]
        await scene.until(lambda: len(one.events) == 2)
        assert "lost 2001: the other end closed it: enough" == one.events[1]

        await scene.until(lambda: one.links and two.links)
        gone = two.links[0]
        assert isinstance(gone, PeerSocket) and gone._transport is not None
        raw = gone._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone._transport.abort()
        await scene.until(lambda: len(one.events) == 4)
        assert one.events[3].startswith("lost 2001: the ")

        await scene.until(lambda: one.links and two.links)
        assert not gone.send([b"x"])
        assert [] == one.told + two.told

    assert [] == play(act).errors


def test_one_that_is_not_there_yet_is_met_when_it_comes() -> None:
    """
    Told once, however often it is dialled; a new life of the same voter is met again.
    """

    async def act(scene: Scene) -> None:
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        one = scene.broker(1)
        one.transport.reach([f"127.0.0.1:{port}"])
        await scene.until(lambda: one.transport._dials > 4)
        assert 1 == len(one.told) and "refused" in one.told[0]

        first = scene.broker(2)
        await first.listen(port)
        await scene.until(lambda: one.links and first.links)
        first.transport.close()
        second = scene.broker(2, life=2)
        await second.listen(port)
        await scene.until(lambda: one.links and second.links)

        assert ["linked 2001", "lost 2001: the other end closed it: the broker stops", "linked 2002"] == one.events

    assert [] == play(act).errors


def test_a_new_life_takes_the_place_of_the_old_link() -> None:
    """
    Also while the old one seems to stand.
    """

    async def act(scene: Scene) -> None:
        one, old, new = scene.broker(1), scene.broker(2), scene.broker(2, life=2)
        address = await one.listen()
        old.transport.reach([address])
        await scene.until(lambda: one.links)
        old.transport.reach([])
        new.transport.reach([address])
        await scene.until(lambda: new.links)

        assert ["linked 2001", "lost 2001: another link took its place", "linked 2002"] == one.events

    assert [] == play(act).errors


def test_who_is_reached_can_be_replaced_at_any_time() -> None:
    """
    What stands stays; what is not wanted any more is not dialled again, and a dial on its way is given up.
    """

    async def act(scene: Scene) -> None:
        one, two = await scene.pair()
        one.transport.reach(["127.0.0.1:1", "nonsense", two.me.address])
        one.transport.reach([])
        assert 1 == len(one.links)
        two.links[0].close("enough")
        dials = one.transport._dials
        await asyncio.sleep(0.3)

        assert dials == one.transport._dials and [] == one.links
        one.transport.reach(["nonsense"])
        await scene.until(lambda: one.told)
        assert "no link to nonsense: the address 'nonsense' is not host:port; correct" in one.told[-1]

    assert [] == play(act).errors


def test_a_queue_is_bounded_when_the_other_end_is_slow() -> None:
    """
    Beyond 64 MiB frames are refused, and nothing is copied; when it reads again everything that was taken arrives.
    """

    async def act(scene: Scene) -> None:
        two = scene.broker(2)
        await two.listen()
        session, raw = await proven_by_hand(scene, two, 77)
        with contextlib.closing(raw):
            await scene.until(lambda: two.links)
            batch = bytes(4 * MIB)
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            taken = 0
            while two.links[0].send([batch]):
                taken += 1
            grown = tracemalloc.get_traced_memory()[1] - before
            tracemalloc.stop()

            assert QUEUE_BYTES_MAX / len(batch) - 1 <= taken <= QUEUE_BYTES_MAX / len(batch) + 2
            assert grown < MIB
            received = 0
            while received < taken:
                count = await scene.loop.sock_recv_into(raw, session.get_buffer())
                session.received(count)
                received += sum(len(frame) == len(batch) for frame in session.frames())
            await scene.until(lambda: two.links[0].send([batch]))
            two.links[0].close("enough")
            await scene.until(lambda: not two.transport._sockets)

    assert [] == play(act).errors


def test_a_link_that_is_closed_does_not_wait_for_one_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What it was sent is flushed for a moment, then dropped with the socket.
    """
    monkeypatch.setattr(peer_socket, "FLUSH_SECONDS", 0.1)

    async def act(scene: Scene) -> None:
        two = scene.broker(2)
        await two.listen()
        _, raw = await proven_by_hand(scene, two, 77)
        with contextlib.closing(raw):
            await scene.until(lambda: two.links)
            link = two.links[0]
            assert isinstance(link, PeerSocket) and link._transport is not None
            assert link.send([bytes(32 * MIB)])
            link.close("enough")
            link.close("again")
            assert [] == two.links and 2 == len(two.events)
            await scene.until(lambda: link._timer is not None and link._timer.cancelled(), 3)

    assert [] == play(act).errors


def test_a_half_open_handshake_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Accepted or dialled, whether nothing came or half of it.
    """
    assert 5 == peer_socket.HANDSHAKE_SECONDS
    monkeypatch.setattr(peer_socket, "HANDSHAKE_SECONDS", 0.2)

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        address = await two.listen()
        async with raw_connection(address) as (silent, _), raw_connection(address) as (half, writer):
            writer.write(b"\0\0\0")
            assert [b"", b""] == [await silent.read(), await half.read()]
            assert 1 == len(two.told) and "the handshake was not over within" in two.told[0]

        with socket.socket() as mute:  # the kernel accepts, and nobody else
            mute.bind(("127.0.0.1", 0))
            mute.listen()
            one.transport.reach([f"127.0.0.1:{mute.getsockname()[1]}"])
            await scene.until(lambda: one.told)
        assert "the handshake was not over within" in one.told[0]

    assert [] == play(act).errors


def test_few_connections_may_be_unproven() -> None:
    """
    One more ends the oldest, so a broker gets through nevertheless.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        address = await two.listen()
        async with contextlib.AsyncExitStack() as stack:
            crowd = [await stack.enter_async_context(raw_connection(address)) for _ in range(UNPROVEN_MAX + 1)]
            assert b"" == await crowd[0][0].read()
            await scene.until(lambda: len(two.transport._unproven) == UNPROVEN_MAX)
            one.transport.reach([address])
            await scene.until(lambda: one.links and two.links)
            assert b"" == await crowd[1][0].read()
            assert len(two.transport._unproven) == UNPROVEN_MAX - 1

    assert [] == play(act).errors


def test_another_key_links_nobody_and_is_told_at_both_ends() -> None:
    """
    Once, with what to do about it.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1, key=b"another key"), scene.broker(2)
        one.transport.reach([await two.listen()])
        await scene.until(lambda: one.transport._dials > 3)

        assert [] == one.events + two.events
        assert 1 == len(one.told) == len(two.told)
        assert all("give tidemill.cluster.key the same value" in told for told in one.told + two.told)

    assert [] == play(act).errors


def test_a_sentence_of_the_owner_refuses_a_link() -> None:
    """
    It is never `lost`, the other end hears why, and is not dialled in a hurry.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        two.refusal = "broker 1 has another directory: start it on its own"
        one.transport.reach([await two.listen()])
        await scene.until(lambda: len(one.events) == 2)
        await asyncio.sleep(0.5)

        assert [] == two.events and 1 == len(two.told) and two.refusal in two.told[0]
        assert two.refusal in one.events[1]
        assert one.transport._dials <= 6

    assert [] == play(act).errors


def test_a_broker_that_dials_itself_is_told_so() -> None:
    """
    By its incarnation.
    """

    async def act(scene: Scene) -> None:
        one = scene.broker(1)
        one.transport.reach([await one.listen()])
        await scene.until(lambda: len(one.told) == 2)

        assert all("is this broker itself: set the addresses of other brokers" in told for told in one.told)
        assert [] == one.events

    assert [] == play(act).errors


@pytest.mark.parametrize("where", ["linked", "received", "lost"])
def test_a_mistake_of_the_owner_ends_one_link_and_is_told(where: str) -> None:
    """
    The others go on, and so does the loop.
    """

    async def act(scene: Scene) -> None:
        one, two, three = scene.broker(1), scene.broker(2), scene.broker(3)
        address = await two.listen()
        three.transport.reach([address])
        await scene.until(lambda: two.links)

        def fail(*args: object) -> None:
            if where == "linked":
                two.links.pop()
            two.on_linked = lambda link: None
            raise RuntimeError("a mistake")

        if where == "linked":
            two.on_linked = fail
        elif where == "received":
            two.on_frame = fail
        one.transport.reach([address])
        await scene.until(lambda: one.events)
        one.transport.reach([])
        if where == "received":
            one.links[0].send([b"x"])
        elif where == "lost":
            two.lost = fail  # type: ignore[method-assign]
            one.links[0].close("enough")
        await scene.until(lambda: len(one.events) > 1)
        if where == "received":
            assert "failed over it" in two.events[-1]
        await scene.until(lambda: scene.errors)
        two.on_frame = lambda link, frame: None

        assert three.links[0].send([b"y"])
        await scene.until(lambda: two.frames[-1:] == [b"y"])
        if where == "lost":
            del two.lost, two.links[1:]

    assert ["a mistake"] == [str(error["exception"]) for error in play(act).errors]


def test_what_breaks_the_protocol_ends_its_link_alone() -> None:
    """
    One sentence says what it was.
    """

    async def act(scene: Scene) -> None:
        one, two = await scene.pair()
        session, raw = await proven_by_hand(scene, two, 77)
        with contextlib.closing(raw):
            await scene.until(lambda: len(two.links) == 2)
            sealed = b"".join(map(bytes, session.seal([b"x"])))
            await scene.loop.sock_sendall(raw, sealed + sealed)
            await scene.until(lambda: len(two.links) == 1)

        assert [b"x"] == two.frames and "lost 77: a frame is out of sequence" in two.events[-1]
        assert one.links[0].send([b"y"])
        await scene.until(lambda: two.frames[-1] == b"y")

    assert [] == play(act).errors


def test_after_close_nothing_is_accepted_dialled_or_left() -> None:
    """
    Each link is lost once; a dial on its way is given up.
    """

    async def act(scene: Scene) -> None:
        one, two = await scene.pair()
        address = two.me.address
        two.transport.reach([address, "127.0.0.1:1"])
        two.transport.close()
        assert ["linked 1001", "lost 1001: the broker stops"] == two.events
        dials = two.transport._dials
        await asyncio.sleep(0.2)

        assert dials == two.transport._dials and not two.transport._sockets and not two.transport._dialled
        with pytest.raises(OSError):
            async with raw_connection(address):
                pass
        assert [] == two.told and [] == one.links

    assert [] == play(act).errors
