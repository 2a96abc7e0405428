"""Links on real sockets: connecting, mutual dials, loss and reconnection, limits, and refusals."""

import asyncio
import contextlib
import json
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
from tidemill.runtime import link_reports, peer_socket
from tidemill.runtime.os_entropy import OsEntropy
from tidemill.runtime.peer_socket import QUEUE_BYTES_MAX, PeerSocket
from tidemill.runtime.peer_transport import UNPROVEN_MAX, PeerTransport
from tidemill.telemetry.event_log import EventLog

KEY = b"a key of the whole cluster"
MIB = 1 << 20


class Broker:
    """A link owner that records its callbacks."""

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
        self.reports: list[tuple[str, str]] = []  # level and text of each report about a link
        self.gaps = 0
        self.refusal: str | None = None
        self.on_frame: Callable[[Link, memoryview], None] = lambda link, frame: None
        self.on_linked: Callable[[Link], object] = lambda link: None
        events = EventLog(self.report, lambda: 0, as_json=True)
        self.transport = PeerTransport(loop, self, key, OsEntropy(), events)

    def report(self, line: str) -> None:
        event = json.loads(line)
        self.reports.append((event["level"], event["event"] + ": " + event.get("problem", "")))

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


class DelayingRelay:
    """A relay in front of a broker.  Delays data by up to 5 ms in each direction, and keeps its order."""

    address: str
    server: asyncio.Server

    def __init__(self, broker: Broker, chance: Random) -> None:
        self.broker = broker
        self.chance = chance
        self.writers: list[asyncio.StreamWriter] = []
        self.carriers: list[asyncio.Future[Any]] = []

    async def open(self) -> "DelayingRelay":
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
        self.relays: list[DelayingRelay] = []
        self.errors: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))

    def broker(self, number: int, **settings: Any) -> Broker:
        self.brokers.append(Broker(self.loop, number, **settings))
        return self.brokers[-1]

    async def pair(self) -> tuple[Broker, Broker]:
        """Return two linked brokers.  Broker 1 has dialled broker 2."""
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
        for relay in self.relays:
            relay.close()
        await self.until(lambda: not any(broker.transport._sockets or broker.links for broker in self.brokers))
        await asyncio.sleep(0.01)  # sockets close in the next iterations of the loop


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


async def raw_link(scene: Scene, broker: Broker, number: int) -> tuple[Session, socket.socket]:
    """Establish a link whose other end reads only what the test requests."""
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


def test_frames_travel_in_both_directions() -> None:
    """Frames arrive in order with their parts joined, even those sent from within `linked`.  Each end has the other's
    Hello, and TCP_NODELAY is set.
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


def test_mutual_dials_never_leave_a_broker_without_a_link() -> None:
    """In each of two hundred mutual dials over randomly delayed connections, a broker that has a link is never without
    one afterwards.  Finally, both ends have the same link and no other.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        chance = Random(1)
        for broker in (one, two):
            await broker.listen()
            scene.relays.append(await DelayingRelay(broker, chance).open())
        stories = set()
        for turn in range(200):
            one.transport.reach([scene.relays[1].address])
            two.transport.reach([scene.relays[0].address])
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
        assert {(1, 1), (1, 3), (3, 3)} == stories, "not every order of events has occurred"
        assert [] == one.reports + two.reports

    assert [] == play(act).errors


@pytest.mark.parametrize("first", [1, 2])
def test_the_link_dialled_by_the_higher_broker_id_is_kept(first: int) -> None:
    """Two brokers with two links keep the one dialled by the higher broker id.  If that is the first link, the second
    is refused; if it is the second link, it replaces the first.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        address = {1: await one.listen(), 2: await two.listen()}
        broker, other = (one, two) if first == 1 else (two, one)
        broker.transport.reach([address[3 - first]])
        await scene.until(lambda: one.links and two.links)
        stood = broker.links[0]
        other.transport.has_link = lambda dialler: False  # type: ignore[method-assign]
        other.transport.reach([address[first]])
        if first == 2:
            await scene.until(lambda: other.transport._dials > 3)
            assert [stood] == broker.links and 1 == len(broker.events) == len(other.events)
        else:
            await scene.until(lambda: len(broker.events) == 3)
            assert "linked" in broker.events[2] and [stood] != broker.links

    assert [] == play(act).errors


def test_a_parked_link_ends_with_the_link_that_replaced_it() -> None:
    """A parked link, which waits for the other end to close it, also ends when the link that replaced it ends.  The
    higher broker id may have crashed before it knew that its dial was accepted, and both brokers would wait forever.
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

        assert ["linked 2001", "lost 2001: replaced by another link", "linked 2001"] == one.events[:3]
        assert "lost 2001: the other end closed the connection" == one.events[3]
        assert [] == one.frames

    assert [] == play(act).errors


def test_a_broker_under_two_addresses_is_dialled_once_under_each() -> None:
    """A broker that is reachable under two addresses has one link, and both addresses count as connected."""

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        address = await two.listen()
        one.transport.reach([address, address.replace("127.0.0.1", "localhost")])
        await scene.until(lambda: one.links and one.transport._dials == 2 and len(one.transport._sockets) == 1)
        await asyncio.sleep(0.3)  # longer than the back-off after the first failure

        assert 2 == one.transport._dials
        assert 1 == len(one.links) == len(two.links)
        assert one.links[0].send([b"x"])
        await scene.until(lambda: two.frames == [b"x"])

    assert [] == play(act).errors


def test_a_lost_link_is_reported_at_once_and_dialled_again() -> None:
    """A link that ends with a close and its reason, or with a reset, is reported immediately and dialled again."""

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
        assert [] == one.reports + two.reports

    assert [] == play(act).errors


def test_an_absent_broker_is_linked_once_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address without a broker is dialled until a broker listens there, and a failure that lasts is reported once.
    A restarted broker is linked again.
    """
    monkeypatch.setattr(link_reports, "NOTICE_MS", 0)

    async def act(scene: Scene) -> None:
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        one = scene.broker(1)
        one.transport.reach([f"127.0.0.1:{port}"])
        await scene.until(lambda: one.transport._dials > 4)
        ((level, report),) = one.reports
        assert "info" == level and "refused" in report

        first = scene.broker(2)
        await first.listen(port)
        await scene.until(lambda: one.links and first.links)
        first.transport.close()
        second = scene.broker(2, life=2)
        await second.listen(port)
        await scene.until(lambda: one.links and second.links)

        assert ["linked 2001", "lost 2001: the other end closed it: the broker stops", "linked 2002"] == one.events

    assert [] == play(act).errors


def test_a_restarted_broker_replaces_its_old_link() -> None:
    """The new link of a restarted broker replaces its old link, even if the old one still appears established."""

    async def act(scene: Scene) -> None:
        one, old, new = scene.broker(1), scene.broker(2), scene.broker(2, life=2)
        address = await one.listen()
        old.transport.reach([address])
        await scene.until(lambda: one.links)
        old.transport.reach([])
        new.transport.reach([address])
        await scene.until(lambda: new.links)

        assert ["linked 2001", "lost 2001: replaced by another link", "linked 2002"] == one.events

    assert [] == play(act).errors


def test_the_dialled_addresses_can_change_at_any_time() -> None:
    """The dialled addresses can change at any time: established links stay, but removed addresses are not dialled
    again, and dials to them in progress are cancelled.
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
        await scene.until(lambda: one.reports)
        level, report = one.reports[-1]
        assert "warning" == level and "no link to nonsense: the address 'nonsense' is not host:port; correct" in report

    assert [] == play(act).errors


def test_a_queue_is_bounded_when_the_other_end_is_slow() -> None:
    """
    If the other end reads nothing, the queue of a link rejects frames beyond 64 MiB and copies none of their bytes.
    When the other end reads again, all accepted frames arrive.
    """

    async def act(scene: Scene) -> None:
        two = scene.broker(2)
        await two.listen()
        session, raw = await raw_link(scene, two, 77)
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


def test_closing_a_link_does_not_wait_for_a_peer_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Closing a link does not wait for a peer that does not read: frames are flushed for a short time and then dropped.
    """
    monkeypatch.setattr(peer_socket, "FLUSH_SECONDS", 0.1)

    async def act(scene: Scene) -> None:
        two = scene.broker(2)
        await two.listen()
        _, raw = await raw_link(scene, two, 77)
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


def test_an_incomplete_handshake_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An accepted or dialled connection is closed if a handshake message, or half of it, does not arrive in time."""
    assert 5 == peer_socket.HANDSHAKE_SECONDS
    monkeypatch.setattr(peer_socket, "HANDSHAKE_SECONDS", 0.2)

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        address = await two.listen()
        async with raw_connection(address) as (silent, _), raw_connection(address) as (half, writer):
            writer.write(b"\0\0\0")
            assert [b"", b""] == [await silent.read(), await half.read()]
            ((_, report),) = two.reports
            assert "the handshake was not complete within" in report

        with socket.socket() as mute:  # the kernel accepts connections, but no process serves them
            mute.bind(("127.0.0.1", 0))
            mute.listen()
            one.transport.reach([f"127.0.0.1:{mute.getsockname()[1]}"])
            await scene.until(lambda: one.reports)
        assert "the handshake was not complete within" in one.reports[0][1]

    assert [] == play(act).errors


def test_the_number_of_unproven_connections_is_limited() -> None:
    """
    If too many connections are not authenticated, each new one closes the oldest of them, so that a broker can still
    connect.
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


def test_a_different_cluster_key_is_refused_and_reported_at_both_ends() -> None:
    """Both ends refuse a link with a different cluster key, and each reports it once, with the fix."""

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1, key=b"another key"), scene.broker(2)
        one.transport.reach([await two.listen()])
        await scene.until(lambda: one.transport._dials > 3)

        assert [] == one.events + two.events
        ((here, one_report),), ((there, two_report),) = one.reports, two.reports
        assert ("warning", "info") == (here, there)  # only the dialler knows that the key differs
        assert all("give tidemill.cluster.key the same value" in report for report in (one_report, two_report))

    assert [] == play(act).errors


def test_the_owner_can_refuse_a_link() -> None:
    """
    If the link owner refuses a link, `lost` is not called; the other end receives the reason and backs off before it
    dials again.
    """

    async def act(scene: Scene) -> None:
        one, two = scene.broker(1), scene.broker(2)
        two.refusal = "broker 1 has another directory: start it on its own"
        one.transport.reach([await two.listen()])
        await scene.until(lambda: len(one.events) == 2)
        await asyncio.sleep(0.5)

        ((_, report),) = two.reports
        assert [] == two.events and two.refusal in report
        assert two.refusal in one.events[1]
        assert one.transport._dials <= 6

    assert [] == play(act).errors


def test_a_broker_dials_an_address_of_its_own_once() -> None:
    """A broker recognizes itself by its incarnation, under any of its addresses, and does not dial that address again.
    This is not reported as a problem, because all brokers of a cluster may have the same list of addresses.
    """

    async def act(scene: Scene) -> None:
        one = scene.broker(1)
        address = await one.listen()
        one.transport.reach([address, address.replace("127.0.0.1", "localhost")])
        await scene.until(lambda: one.transport._dials == 2 and not one.transport._sockets)
        await asyncio.sleep(0.3)  # longer than the back-off after the first failure

        assert 2 == one.transport._dials
        assert [] == one.reports == one.events


def test_the_end_of_a_long_outage_is_reported_also_by_a_new_dialler(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Broker 2 comes back with an empty directory, so broker 1 does not dial its address until broker 2 has registered.
    Meanwhile broker 2 dials broker 1.  Broker 1 reports the end of the outage once it may dial the address again.
    """
    monkeypatch.setattr(link_reports, "NOTICE_MS", 0)
    monkeypatch.setattr(link_reports, "OUTAGE_MS", 100)

    async def act(scene: Scene) -> None:
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        one, two = scene.broker(1), scene.broker(2)
        one.transport.reach([f"127.0.0.1:{port}"])
        await scene.until(lambda: len(one.reports) == 2)
        one.transport.reach([])
        address = await one.listen()
        await two.listen(port)
        two.transport.reach([address])
        await scene.until(lambda: one.links)
        one.transport.reach([two.me.address])
        await scene.until(lambda: len(one.reports) == 4)

        assert [("info", "no link to"), ("warning", "no link to"), ("info", "link not n"), ("info", "link resto")] == [
            (level, report[:10]) for level, report in one.reports
        ]

    assert [] == play(act).errors


def test_a_long_outage_is_a_warning_and_its_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that dials a peer without success for a long time logs one warning, however often it dials.  It also
    reports when there is a link again, even if the peer has dialled that link.
    """
    monkeypatch.setattr(link_reports, "NOTICE_MS", 0)
    monkeypatch.setattr(link_reports, "OUTAGE_MS", 100)

    async def act(scene: Scene) -> None:
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        one, two = scene.broker(1), scene.broker(2)
        one.transport.reach([f"127.0.0.1:{port}"])
        await scene.until(lambda: len(one.reports) == 2)
        dials = one.transport._dials
        await scene.until(lambda: one.transport._dials > dials + 1)
        address = await one.listen()
        await two.listen(port)
        two.transport.reach([address])
        await scene.until(lambda: len(one.reports) == 3)

        assert [("info", "no link to"), ("warning", "no link to"), ("info", "link resto")] == [
            (level, report[:10]) for level, report in one.reports
        ]

    assert [] == play(act).errors

    assert [] == play(act).errors


@pytest.mark.parametrize("where", ["linked", "received", "lost"])
def test_an_exception_of_the_owner_closes_one_link_and_is_reported(where: str) -> None:
    """
    An exception raised by the link owner closes the link concerned and is reported; the other links and the loop
    continue.
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
            assert "internal error" in two.events[-1]
        await scene.until(lambda: scene.errors)
        two.on_frame = lambda link, frame: None

        assert three.links[0].send([b"y"])
        await scene.until(lambda: two.frames[-1:] == [b"y"])
        if where == "lost":
            del two.lost, two.links[1:]

    assert ["a mistake"] == [str(error["exception"]) for error in play(act).errors]


def test_a_protocol_violation_closes_only_its_link() -> None:
    """A protocol violation closes only the link on which it happens, and one sentence names the violation."""

    async def act(scene: Scene) -> None:
        one, two = await scene.pair()
        session, raw = await raw_link(scene, two, 77)
        with contextlib.closing(raw):
            await scene.until(lambda: len(two.links) == 2)
            sealed = b"".join(map(bytes, session.seal([b"x"])))
            await scene.loop.sock_sendall(raw, sealed + sealed)
            await scene.until(lambda: len(two.links) == 1)

        assert [b"x"] == two.frames and "lost 77: a frame is out of sequence" in two.events[-1]
        assert one.links[0].send([b"y"])
        await scene.until(lambda: two.frames[-1] == b"y")

    assert [] == play(act).errors


def test_after_close_nothing_is_accepted_or_dialled() -> None:
    """Closing calls `lost` once per link and cancels dials in progress; afterwards nothing is accepted or dialled."""

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
        assert [] == two.reports and [] == one.links

    assert [] == play(act).errors
