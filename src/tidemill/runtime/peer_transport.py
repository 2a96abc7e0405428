"""All links of a broker on real sockets: listens, dials, and sees that one link stands between two processes.

Both ends may dial.  Of two links between the same two processes the one that the higher broker id has dialled stays,
and of several that the same end has dialled the last: that order is total and known to both ends, so neither ever
closes the one that comes first in it.  Who dialled it knows that it stands at both ends, and closes the other; who
accepted it parks the other meanwhile, silent: else there might be no link for the time that a Hello takes.  A voter's
new life, or a Hello that has changed, replaces the old link at once.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

from tidemill.model.entropy import Entropy
from tidemill.peer.hello import Hello
from tidemill.peer.link import LinkOwner
from tidemill.peer.session import NONCE_BYTES, Session
from tidemill.runtime.peer_socket import HANDSHAKE_SECONDS, PeerSocket

UNPROVEN_MAX: Final = 64
"""Accepted connections whose other end has not proven the key; a further one ends the oldest."""

BACKLOG: Final = 128
BACK_OFF_SECONDS_MIN: Final = 0.05
BACK_OFF_SECONDS_MAX: Final = 1.0
STOOD_SECONDS: Final = 1.0
"""A link that stood so long was no failure: the next dial comes soon."""

TOLD_MAX: Final = 256
"""Ends about which is remembered what was reported, so that it is not said again; the oldest is forgotten."""

TOLD_PER_END_MAX: Final = 8
"""Different sentences; then there is silence about that end until a link to it stands."""

IS_REPLACED: Final = "another link took its place"
ANOTHER_STANDS: Final = "another link stands between the two"
STOPS: Final = "the broker stops"


class PeerTransport:
    """Twin of `peer.link.Links` on the machine."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: LinkOwner,
        key: bytes,
        entropy: Entropy,
        report: Callable[[str], None],
    ) -> None:
        """`report` hears sentences about what did not become a link; the same about the same end only once."""
        self.addresses: Sequence[tuple[str, int]] = ()
        """Where it listens, with the ports that were found for port 0."""
        self.links: dict[PeerSocket, float] = {}
        """Since when each stands, on the loop's clock."""
        self.last_failure: str | None = None
        self._loop = loop
        self._owner = owner
        self._key = key
        self._entropy = entropy
        self._report = report
        self._server: asyncio.Server | None = None
        self._diallers: dict[str, _Dialler] = {}
        self._dialled: dict[PeerSocket, _Dialler] = {}
        self._sockets: dict[PeerSocket, None] = {}
        self._unproven: dict[PeerSocket, None] = {}
        self._parked: dict[PeerSocket, PeerSocket] = {}
        """Each for the link that took its place here; the other end closes it when that stands there too."""
        self._dials = 0
        self._told: dict[str, list[str]] = {}
        self._is_closed = False

    async def bind(self, host: str, port: int) -> None:
        """The port is ours, and connections to it are refused until `serve`.  OSError names an address in use."""
        self._server = await self._loop.create_server(
            lambda: PeerSocket(self._loop, self, self._owner, self._session(None)),
            host,
            port,
            backlog=BACKLOG,
            reuse_address=True,
            reuse_port=False,
            start_serving=False,
        )
        self.addresses = [listener.getsockname()[:2] for listener in self._server.sockets]

    async def serve(self) -> None:
        assert self._server is not None, "nothing is bound"
        await self._server.start_serving()

    def close(self) -> None:
        """Neither listen nor dial any more, and end every link; the owner hears `lost` of each."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reach(())
        for socket in [*self._sockets]:
            socket.end(STOPS, tell=True)

    def reach(self, addresses: Collection[str]) -> None:
        wanted = dict.fromkeys(addresses)
        for address in [address for address in self._diallers if address not in wanted]:
            self._diallers.pop(address).stop()
        for address in wanted:
            if address not in self._diallers:
                self._diallers[address] = _Dialler(self, address)
                self._diallers[address].consider()

    # What sockets call

    def connected(self, socket: PeerSocket) -> None:
        self._sockets[socket] = None
        if self._is_closed:
            socket.end(STOPS, tell=False)
            return
        if socket not in self._dialled:
            self._unproven[socket] = None
            if len(self._unproven) > UNPROVEN_MAX:
                oldest = next(iter(self._unproven))
                oldest.end(f"more than {UNPROVEN_MAX} connections have not proven the cluster key", tell=False)

    def proven(self, socket: PeerSocket) -> str | None:
        self._unproven.pop(socket, None)
        hello, dialler = socket.hello, self._dialled.get(socket)
        if dialler is not None:
            dialler.reached = hello.incarnation
        if socket.session.ours != self._owner.hello():
            return "this broker has another identity by now: connect again"
        for rival in [link for link in self.links if _is_same(link.hello, hello)]:
            if not _is_between_the_same(rival.session, socket.session):
                rival.end(IS_REPLACED, tell=True)
            elif _precedence(rival.session) > _precedence(socket.session):
                if rival.session.is_dialler:
                    return ANOTHER_STANDS
                self._park(socket, rival)
                return None
            elif socket.session.is_dialler:
                rival.end(IS_REPLACED, tell=True)
            else:
                self._park(rival, socket)
        self.links[socket] = self._loop.time()
        refusal: str | None = "this broker failed over it"
        try:
            refusal = self._owner.linked(socket)
        finally:
            if refusal is not None:
                self.links.pop(socket, None)  # so that it is not `lost`
        if refusal is None:
            self._told.pop(self._name_of(socket), None)
        return refusal

    def ended(self, socket: PeerSocket, why: str) -> None:
        name = self._name_of(socket)
        self._sockets.pop(socket, None)
        self._unproven.pop(socket, None)
        is_parked = self._parked.pop(socket, None) is not None
        dialler = self._dialled.pop(socket, None)
        since = self.links.get(socket)
        if since is not None:
            self._lose(socket, why)
        elif not is_parked and ANOTHER_STANDS not in why and not (dialler is not None and dialler.is_stopped):
            self.tell(name, why)
        for parked in [parked for parked, winner in self._parked.items() if winner is socket]:
            parked.end(why, tell=True)  # the other end may not have got as far with the winner
        if dialler is not None:
            dialler.ended(has_stood=since is not None and self._loop.time() - since >= STOOD_SECONDS)
        for other in [*self._diallers.values()]:
            other.consider()

    # What diallers call

    def dial(self, dialler: "_Dialler") -> PeerSocket:
        self._dials += 1
        socket = PeerSocket(self._loop, self, self._owner, self._session(self._dials))
        self._dialled[socket] = dialler
        return socket

    def stands(self, dialler: "_Dialler") -> bool:
        return any(
            link.hello.address == dialler.address or link.hello.incarnation == dialler.reached for link in self.links
        )

    def jittered(self, seconds: float) -> float:
        """Between half of it and all of it."""
        return seconds * (1 + int.from_bytes(self._entropy.random_bytes(2), "big") / 65536) / 2

    def tell(self, name: str, why: str) -> None:
        self.last_failure = f"no link {name}: {why}"
        told = self._told.setdefault(name, [])
        if self._is_closed or why in told or len(told) >= TOLD_PER_END_MAX:
            return
        told.append(why)
        if len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
        self._report(self.last_failure)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def _park(self, socket: PeerSocket, winner: PeerSocket) -> None:
        self._parked[socket] = winner
        socket.is_parked = True
        if socket in self.links:
            self._lose(socket, IS_REPLACED)

    def _lose(self, link: PeerSocket, why: str) -> None:
        del self.links[link]
        try:
            self._owner.lost(link, why)
        except Exception as error:
            self._loop.call_exception_handler({"message": "losing a link failed", "exception": error})

    def _session(self, dial: int | None) -> Session:
        return Session(self._key, self._owner.hello(), self._entropy.random_bytes(NONCE_BYTES), dial=dial)

    def _name_of(self, socket: PeerSocket) -> str:
        dialler = self._dialled.get(socket)
        return f"to {dialler.address}" if dialler is not None else f"from {socket.other_end}"


class _Dialler:
    """One address that a link is wanted to.  It waits, dials, or stands; `consider` says whether to go on."""

    __slots__ = (
        "_failures",
        "_is_busy",
        "_socket",
        "_task",
        "_timer",
        "_transport",
        "address",
        "is_stopped",
        "reached",
    )

    def __init__(self, transport: PeerTransport, address: str) -> None:
        self.address = address
        self.reached: int | None = None
        """The incarnation that was met there last: it may have a link under another address."""
        self._transport = transport
        self._failures = -1  # nothing was tried yet: the first dial comes at once
        self._is_busy = False  # from the dial on until its socket has ended
        self.is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._socket: PeerSocket | None = None
        self._task: asyncio.Task[None] | None = None

    def consider(self) -> None:
        if self.is_stopped or self._is_busy or self._timer is not None or self._transport.stands(self):
            return
        back_off = min(BACK_OFF_SECONDS_MIN * 2 ** min(self._failures, 10), BACK_OFF_SECONDS_MAX)
        seconds = 0.0 if self._failures < 0 else self._transport.jittered(back_off)
        self._timer = self._transport.loop.call_later(seconds, self._dial)

    def stop(self) -> None:
        """What is connected stays."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None and self._socket is not None:
            self._task.cancel()
            self._socket.end("nobody wants it any more", tell=False)

    def ended(self, *, has_stood: bool) -> None:
        """The socket that was dialled last is gone."""
        self._is_busy = False
        self._failures = 0 if has_stood else self._failures + 1

    def _dial(self) -> None:
        self._timer = None
        if self._transport.stands(self):
            return
        self._is_busy = True
        self._socket = self._transport.dial(self)
        self._task = self._transport.loop.create_task(self._connect(self._socket))

    async def _connect(self, socket: PeerSocket) -> None:
        try:
            host, port = _host_and_port(self.address)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self._transport.loop.create_connection(lambda: socket, host, port)
        except TimeoutError:
            socket.end(f"no connection within {HANDSHAKE_SECONDS:.0f} s", tell=False)
        except (OSError, ValueError) as error:
            socket.end(str(error), tell=False)
        finally:
            self._task = None


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"the address {address!r} is not host:port; correct tidemill.join or that broker's listener")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_same(one: Hello, other: Hello) -> bool:
    """Do they speak of one broker?"""
    return one.incarnation == other.incarnation or (one.voter is not None and one.voter == other.voter)


def _is_between_the_same(one: Session, other: Session) -> bool:
    return (one.ours, one.theirs) == (other.ours, other.theirs)


def _precedence(session: Session) -> tuple[bool, int]:
    """Of two links between the same the greater stays; both ends compute the same."""
    assert session.theirs is not None
    return session.is_dialler == (_rank(session.ours) > _rank(session.theirs)), session.dial


def _rank(hello: Hello) -> tuple[int, int]:
    return hello.voter.broker_id if hello.voter else -1, hello.incarnation
