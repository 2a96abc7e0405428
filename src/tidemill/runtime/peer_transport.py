"""All links of a broker on real sockets: listens, dials, and keeps exactly one link per pair of processes.

Both ends may dial.  Of two links between the same processes, the one that the broker with the higher id dialled is
kept; of several links that the same end dialled, the last one is kept.  Both ends compute the same order, so neither
closes the link that the other end keeps.  The dialler of that link knows that it is established at both ends, and
closes the other link.  The acceptor only parks the other link, which then carries no frames: if it closed that link
immediately, the pair could be without a link until the dialler has received the Hello.  A link to a restarted voter, or
one with a changed Hello, replaces the old link immediately.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from tidemill.model.entropy import Entropy
from tidemill.peer.hello import Hello
from tidemill.peer.link import LinkOwner
from tidemill.peer.session import NONCE_BYTES, PeerRefused, ReachedItself, Session
from tidemill.runtime.link_reports import LinkReports
from tidemill.runtime.peer_dialler import PeerDialler
from tidemill.runtime.peer_socket import PeerSocket
from tidemill.telemetry.event_log import EventLog

UNPROVEN_MAX: Final = 64
"""The limit on accepted connections whose knowledge of the cluster key is unproven; beyond it, the oldest is closed."""

BACKLOG: Final = 128
STABLE_SECONDS: Final = 1.0
"""After a link has lasted this long, the back-off before the next dial starts from its minimum."""

IS_REPLACED: Final = "replaced by another link"
OTHER_LINK_EXISTS: Final = "another link between the two brokers exists"
STOPS: Final = "the broker stops"


class PeerTransport:
    """The implementation of `peer.link.Links` on real sockets."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: LinkOwner,
        key: bytes,
        entropy: Entropy,
        events: EventLog,
    ) -> None:
        """Create a transport that does not listen yet."""
        self.addresses: Sequence[tuple[str, int]] = ()
        """The addresses on which the transport listens, with actual ports in place of port 0."""
        self.links: dict[PeerSocket, float] = {}
        """Established links, each with the time on the loop's clock at which it was established."""
        self.reports = LinkReports(events, loop.time)
        self._loop = loop
        self._owner = owner
        self._key = key
        self._entropy = entropy
        self._server: asyncio.Server | None = None
        self._diallers: dict[str, PeerDialler] = {}
        self._dialled: dict[PeerSocket, PeerDialler] = {}
        self._sockets: dict[PeerSocket, None] = {}
        self._unproven: dict[PeerSocket, None] = {}
        self._parked: dict[PeerSocket, PeerSocket] = {}
        """Parked sockets, each with the link that replaces it; the other end closes the parked socket."""
        self._dials = 0
        self._is_closed = False

    async def bind(self, host: str, port: int) -> None:
        """Bind the port; connections are refused until `serve`.  Raises OSError with the address if it is in use."""
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
        """Stop listening and dialling, and close every link; the owner's `lost` is called for each."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reach(())
        for socket in [*self._sockets]:
            socket.end(STOPS, send_reason=True)

    def reach(self, addresses: Collection[str]) -> None:
        wanted = dict.fromkeys(addresses)
        for address in [address for address in self._diallers if address not in wanted]:
            self._diallers.pop(address).stop()
        for address in wanted:
            if address not in self._diallers:
                self._diallers[address] = PeerDialler(self, address)
                self._diallers[address].dial_if_needed()

    # Methods called by PeerSocket

    def connected(self, socket: PeerSocket) -> None:
        self._sockets[socket] = None
        if self._is_closed:
            socket.end(STOPS, send_reason=False)
            return
        if socket not in self._dialled:
            self._unproven[socket] = None
            if len(self._unproven) > UNPROVEN_MAX:
                oldest = next(iter(self._unproven))
                oldest.end(f"more than {UNPROVEN_MAX} connections have not proven the cluster key", send_reason=False)

    def proven(self, socket: PeerSocket) -> str | None:
        self._unproven.pop(socket, None)
        hello, dialler = socket.hello, self._dialled.get(socket)
        if dialler is not None:
            dialler.reached = hello.incarnation
        if socket.session.ours != self._owner.hello():
            return "this broker's identity has changed: connect again"
        for rival in [link for link in self.links if _is_same(link.hello, hello)]:
            if not _is_between_the_same(rival.session, socket.session):
                rival.end(IS_REPLACED, send_reason=True)
            elif _precedence(rival.session) > _precedence(socket.session):
                if rival.session.is_dialler:
                    return OTHER_LINK_EXISTS
                self._park(socket, rival)
                return None
            elif socket.session.is_dialler:
                rival.end(IS_REPLACED, send_reason=True)
            else:
                self._park(rival, socket)
        self.links[socket] = self._loop.time()
        refusal: str | None = "internal error of this broker"
        try:
            refusal = self._owner.linked(socket)
        finally:
            if refusal is not None:
                self.links.pop(socket, None)  # so that `lost` is not called for this socket
        if refusal is None:
            self.reports.linked(self._name_of(socket))
        return refusal

    def ended(self, socket: PeerSocket, why: str, refusal: PeerRefused | None) -> None:
        name = self._name_of(socket)
        if isinstance(refusal, ReachedItself):
            self._mark_own_address(socket.session.dial)
        self._sockets.pop(socket, None)
        self._unproven.pop(socket, None)
        is_parked = self._parked.pop(socket, None) is not None
        dialler = self._dialled.pop(socket, None)
        since = self.links.get(socket)
        if since is not None:
            self._drop_link(socket, why)
        elif not (is_parked or OTHER_LINK_EXISTS in why or (dialler is not None and dialler.is_over)):
            self._report(name, why, refusal)
        for parked in [parked for parked, winner in self._parked.items() if winner is socket]:
            # At the other end, the link that replaced the parked one is perhaps not established yet.
            parked.end(why, send_reason=True)
        if dialler is not None:
            dialler.ended(was_stable=since is not None and self._loop.time() - since >= STABLE_SECONDS)
        for other in [*self._diallers.values()]:
            other.dial_if_needed()

    # Methods called by PeerDialler

    def dial(self, dialler: PeerDialler) -> PeerSocket:
        self._dials += 1
        socket = PeerSocket(self._loop, self, self._owner, self._session(self._dials))
        self._dialled[socket] = dialler
        return socket

    def has_link(self, dialler: PeerDialler) -> bool:
        return any(
            link.hello.address == dialler.address or link.hello.incarnation == dialler.reached for link in self.links
        )

    def jittered(self, seconds: float) -> float:
        """Return a random duration between half of `seconds` and all of it."""
        return seconds * (1 + int.from_bytes(self._entropy.random_bytes(2), "big") / 65536) / 2

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def _park(self, socket: PeerSocket, winner: PeerSocket) -> None:
        self._parked[socket] = winner
        socket.is_parked = True
        if socket in self.links:
            self._drop_link(socket, IS_REPLACED)

    def _drop_link(self, link: PeerSocket, why: str) -> None:
        del self.links[link]
        try:
            self._owner.lost(link, why)
        except Exception as error:
            self._loop.call_exception_handler({"message": "losing a link failed", "exception": error})

    def _report(self, name: str, why: str, refusal: PeerRefused | None) -> None:
        if self._is_closed or isinstance(refusal, ReachedItself):
            return
        if refusal is None:
            self.reports.failed(name, why)
        else:
            self.reports.refused(name, why)

    def _mark_own_address(self, dial: int) -> None:
        """Stop dialling the address at which dial number `dial` has reached this process itself."""
        for socket, dialler in self._dialled.items():
            if socket.session.dial == dial:
                dialler.is_own = True

    def _session(self, dial: int | None) -> Session:
        return Session(self._key, self._owner.hello(), self._entropy.random_bytes(NONCE_BYTES), dial=dial)

    def _name_of(self, socket: PeerSocket) -> str:
        dialler = self._dialled.get(socket)
        return dialler.name if dialler is not None else f"from {socket.other_end}"


def _is_same(one: Hello, other: Hello) -> bool:
    """Return whether both Hellos are from the same broker."""
    return one.incarnation == other.incarnation or (one.voter is not None and one.voter == other.voter)


def _is_between_the_same(one: Session, other: Session) -> bool:
    return (one.ours, one.theirs) == (other.ours, other.theirs)


def _precedence(session: Session) -> tuple[bool, int]:
    """Return the rank of a link.  The highest-ranking link of a pair is kept; both ends compute the same rank."""
    assert session.theirs is not None
    return session.is_dialler == (_rank(session.ours) > _rank(session.theirs)), session.dial


def _rank(hello: Hello) -> tuple[int, int]:
    return hello.voter.broker_id if hello.voter else -1, hello.incarnation
