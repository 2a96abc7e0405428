"""
The links between simulated brokers, on the simulated network: another implementation of the port that
`runtime/peer_transport` implements.

An address is dialled until a link is established, with the same back-off as in the real transport.  Of two links
between two brokers, the one that the real transport would keep is kept.  Brokers are not authenticated, because no
simulated broker is malicious.  A frame arrives in one piece.

    dialler: connect ─────────────▶ acceptor: its Hello ─▶ dialler: linked, its Hello ─▶ acceptor: linked
"""

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any, Final

from tidemill.peer.hello import Hello, decode_hello, encode_hello
from tidemill.peer.link import Buffer, LinkOwner
from tidemill.simulation.machine.event_loop import SimulatedLoop
from tidemill.simulation.machine.network import Network, Socket

PEER_PORT: Final = 9070
QUEUED_BYTES_MAX: Final = 64 << 20
HANDSHAKE_S: Final = 5.0
BACK_OFF_S_MIN: Final = 0.05
BACK_OFF_S_MAX: Final = 1.0
STOOD_S: Final = 1.0  # a link that has been established for this long does not count as a failure when it ends
IS_REPLACED: Final = "replaced by another link"
ANOTHER_STANDS: Final = "another link between the two brokers exists"


class SimulatedLink:
    """One end of a link: an implementation of the port `peer.link.Link`."""

    def __init__(self, links: "SimulatedLinks", socket: Socket, ours: Hello, dial: int | None) -> None:
        self.ours = ours
        self.theirs: Hello | None = None
        self.dial = dial  # the dialler's number for this dial; the acceptor learns it from the dialler
        self.is_dialler = dial is not None
        self.is_parked = False
        self._links = links
        self._socket = socket
        socket.received, socket.lost = self._received, self.end
        links.loop.call_later(HANDSHAKE_S, self._check_handshake)

    @property
    def hello(self) -> Hello:
        assert self.theirs is not None, "a link begins with a Hello"
        return self.theirs

    def send(self, parts: Sequence[Buffer]) -> bool:
        data = b"".join(parts)
        if self.is_parked or not self._socket.is_open or self._socket.queued_bytes + len(data) > QUEUED_BYTES_MAX:
            return False
        self._socket.send(data)
        return True

    def close(self, why: str) -> None:
        if not self.is_parked:
            self.end(why)

    def begin(self) -> None:
        """Send the Hello, if this end is the acceptor.  The dialler sends its own in response."""
        if not self.is_dialler:
            self._socket.send(encode_hello(self.ours))

    def end(self, why: str, *, tell: bool = True) -> None:
        """End the link.  With `tell`, data that was sent may still arrive; otherwise it is dropped."""
        if tell:
            self._socket.close()
        else:
            self._socket.abort()
        self._links.ended(self, why)

    def _check_handshake(self) -> None:
        if self.theirs is None:
            self.end(f"no Hello within {HANDSHAKE_S:.0f} s", tell=False)

    def _received(self, data: bytes) -> None:
        if self.theirs is not None:
            self._links.received(self, data)
            return
        if self.is_dialler:
            self.theirs = decode_hello(data)
            # The acceptor needs this Hello even if the dialler refuses the link.
            self._socket.send((self.dial or 0).to_bytes(4) + encode_hello(self.ours))
        else:
            self.dial = int.from_bytes(data[:4])
            self.theirs = decode_hello(data[4:])
        refusal = self._links.proven(self)
        if refusal is not None:
            self.end(refusal)


class SimulatedLinks:
    """The links of one process: an implementation of the port `peer.link.Links`."""

    def __init__(
        self,
        network: Network,
        loop: SimulatedLoop,
        host: str,
        owner: LinkOwner,
        random: Random,
    ) -> None:
        self.loop = loop
        # The links that the owner has been notified of, and the time when each was established.
        self.links: dict[SimulatedLink, float] = {}
        self.last_failure: str | None = None
        self.last_refusal: str | None = None  # always None: all simulated brokers have the same settings
        self._network = network
        self._host = host
        self._owner = owner
        self._random = random
        self._diallers: dict[str, _Dialler] = {}
        self._dialled: dict[SimulatedLink, _Dialler] = {}
        self._ends: dict[SimulatedLink, None] = {}  # every open link: established, parked or before its handshake
        self._parked: dict[SimulatedLink, SimulatedLink] = {}  # each parked link → the link that is used instead
        self._dials = 0
        self._is_closed = False

    async def listen(self, last_address: str) -> str:
        self._network.listen(self._host, PEER_PORT, self.loop, self._accept)
        return f"{self._host}:{PEER_PORT}"

    def reach(self, addresses: Collection[str]) -> None:
        for address in [address for address in self._diallers if address not in addresses]:
            self._diallers.pop(address).is_stopped = True
        for address in addresses:
            if address not in self._diallers:
                self._diallers[address] = _Dialler(self, address)
                self._diallers[address].consider()

    def close(self) -> None:
        self._is_closed = True
        self.reach(())
        for link in [*self._ends]:
            link.end("the broker stops")

    # Accepting and dialling connections.

    def _accept(self, socket: Socket) -> None:
        if self._is_closed:
            socket.close()
            return
        link = SimulatedLink(self, socket, self._owner.hello(), None)
        self._ends[link] = None
        link.begin()

    def dial(self, dialler: "_Dialler") -> None:
        host, _, port = dialler.address.rpartition(":")
        self._dials += 1
        ours, dial = self._owner.hello(), self._dials

        def connected(socket: Socket) -> None:
            if dialler.is_stopped:
                socket.close()
                return
            link = SimulatedLink(self, socket, ours, dial)
            self._ends[link] = None
            self._dialled[link] = dialler

        self._network.dial(self.loop, self._host, (host, int(port)), connected, dialler.failed)

    def jittered(self, delay_s: float) -> float:
        return delay_s * (0.5 + self._random.random() / 2)

    def stands(self, dialler: "_Dialler") -> bool:
        return any(
            link.hello.address == dialler.address or link.hello.incarnation == dialler.reached for link in self.links
        )

    # Methods called by links.

    def proven(self, link: SimulatedLink) -> str | None:
        """Handle a link whose Hellos have been exchanged.  Return None, or the reason to refuse it."""
        dialler = self._dialled.get(link)
        if dialler is not None:
            dialler.reached = link.hello.incarnation
        if link.ours != self._owner.hello():
            return "this broker has another identity by now: connect again"
        for rival in [rival for rival in self.links if _is_same(rival.hello, link.hello)]:
            if (rival.ours, rival.theirs) != (link.ours, link.theirs):
                rival.end(IS_REPLACED)
            elif _precedence(rival) > _precedence(link):
                if rival.is_dialler:
                    return ANOTHER_STANDS
                self._park(link, rival)
                return None
            elif link.is_dialler:
                rival.end(IS_REPLACED)
            else:
                self._park(rival, link)
        self.links[link] = self.loop.time()
        refusal = self._owner.linked(link)
        if refusal is not None:
            self.links.pop(link, None)
        return refusal

    def received(self, link: SimulatedLink, data: bytes) -> None:
        if link in self.links:
            self._owner.received(link, memoryview(bytearray(data)))

    def ended(self, link: SimulatedLink, why: str) -> None:
        if link not in self._ends:
            return
        del self._ends[link]
        self._parked.pop(link, None)
        dialler = self._dialled.pop(link, None)
        since = self.links.get(link)
        if since is not None:
            self._lose(link, why)
        elif dialler is not None:
            self.last_failure = f"no link to {dialler.address}: {why}"
        for parked in [parked for parked, winner in self._parked.items() if winner is link]:
            parked.end(why)
        if dialler is not None:
            dialler.ended(has_stood=since is not None and self.loop.time() - since >= STOOD_S)
        for other in [*self._diallers.values()]:
            other.consider()

    def _park(self, link: SimulatedLink, winner: SimulatedLink) -> None:
        """
        Stop using `link`, and wait for the other end to close it: only the end that dialled `winner` knows that
        `winner` is established at both ends.
        """
        self._parked[link] = winner
        link.is_parked = True
        if link in self.links:
            self._lose(link, IS_REPLACED)

    def _lose(self, link: SimulatedLink, why: str) -> None:
        del self.links[link]
        self._owner.lost(link, why)


class _Dialler:
    """Dials one address until a link to it is established."""

    def __init__(self, links: SimulatedLinks, address: str) -> None:
        self.address = address
        self.reached: int | None = None  # the incarnation of the broker last reached at the address
        self.is_stopped = False
        self._links = links
        self._failures = -1  # successive failures; -1: no dial has been tried yet
        self._is_busy = False
        self._timer: Any = None

    def consider(self) -> None:
        if self.is_stopped or self._is_busy or self._timer is not None or self._links.stands(self):
            return
        back_off_s = min(BACK_OFF_S_MIN * 2 ** min(self._failures, 10), BACK_OFF_S_MAX)
        delay_s = 0.0 if self._failures < 0 else self._links.jittered(back_off_s)
        self._timer = self._links.loop.call_later(delay_s, self._dial)

    def _dial(self) -> None:
        self._timer = None
        if not self.is_stopped and not self._links.stands(self):
            self._is_busy = True
            self._links.dial(self)

    def failed(self, _: str) -> None:
        self.ended(has_stood=False)
        self.consider()

    def ended(self, *, has_stood: bool) -> None:
        self._is_busy = False
        self._failures = 0 if has_stood else self._failures + 1


def links_on(network: Network, loop: SimulatedLoop, host: str, random: Random) -> Callable[[LinkOwner], SimulatedLinks]:
    """Return the link factory that a simulated machine passes to its broker."""
    return lambda owner: SimulatedLinks(network, loop, host, owner, Random(random.getrandbits(64)))


def _is_same(one: Hello, other: Hello) -> bool:
    """Return whether two Hellos come from the same broker."""
    return one.incarnation == other.incarnation or (one.voter is not None and one.voter == other.voter)


def _precedence(link: SimulatedLink) -> tuple[bool, int]:
    """
    Return the rank of a link: of two links between two brokers, the higher-ranking one is kept.  Both ends compute the
    same rank.
    """
    return link.is_dialler == (_rank(link.ours) > _rank(link.hello)), link.dial or 0


def _rank(hello: Hello) -> tuple[int, int]:
    return hello.voter.broker_id if hello.voter else -1, hello.incarnation
