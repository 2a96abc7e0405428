"""The simulated network: hosts, processes that listen on them, and connections that behave like TCP.

    dial ─▶ SYN in flight ─▶ accept ─▶ connected │ refused: no listener    │ timed out: blocked, or powered down
    send ─▶ in flight, in order ─▶ received      │ reset: peer process died │ timed out

Data sent in a blocked direction is not lost: it is sent again until the direction is unblocked or TCP gives up.  A
short network partition is therefore only a delay, but a long one loses the connection.  When a process dies, its
connections close after the data that it has sent.  A machine that loses power notifies no peer, so its connections are
left half-open.  Data is kept in order only within a connection.
"""

from collections import deque
from collections.abc import Callable
from hashlib import sha1
from random import Random
from typing import Final

from tidemill.simulation.machine.event_loop import US, SimulatedLoop, Timeline

RETRY_US: Final = 50_000  # half of the first retry delay in a blocked direction; the delay doubles up to the maximum
RETRY_US_MAX: Final = 400_000
GIVE_UP_US: Final = 15 * US
CONNECT_US: Final = 3 * US

Way = tuple[str, str]  # from host, to host


class Socket:
    """One end of a connection.  The owner sets `received` and `lost`, which are called on the loop of its process."""

    def __init__(self, network: "Network", loop: SimulatedLoop, host: str, peer_host: str, number: int) -> None:
        self.loop = loop
        self.host = host
        self.peer_host = peer_host
        self.number = number  # number of the connection, the same at both ends
        self.is_open = True
        self.is_reading = True
        self.queued_bytes = 0  # bytes that have been sent but have not arrived yet
        self.received: Callable[[bytes], None] | None = None
        self.lost: Callable[[str], None] | None = None
        self._network = network
        self._other: Socket | None = None
        # Data in flight: its arrival time and its bytes, or None for the end of the connection.
        self._in_flight: deque[tuple[int, bytes | None]] = deque()
        self._last_arrival_us = 0
        self._retries = 0
        self._stuck_since_us: int | None = None
        self._inbox: deque[bytes | None] = deque()

    def send(self, data: bytes) -> None:
        if self.is_open:
            self._send(data)

    def close(self) -> None:
        """Close the connection.  Data in flight still reaches the other end, but this end receives nothing more."""
        if self.is_open:
            self._send(None)
            self.is_open = False

    def abort(self) -> None:
        """
        Close the connection and drop the data in flight.  The other end is notified as soon as the network delivers the
        notification.
        """
        if self.is_open:
            self._in_flight.clear()
            self.queued_bytes = 0
            self._send(None)
            self.is_open = False

    def vanish(self) -> None:
        """End this side as a power loss does: data in flight still arrives, but the other end is not notified."""
        self.is_open = False

    def fail(self, why: str) -> None:
        """Lose the connection on this side."""
        if self.is_open:
            self.is_open = False
            self._in_flight.clear()
            self.queued_bytes = 0
            lost = self.lost
            if lost is not None:
                self.loop.call_soon(lost, why)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True
        if self._inbox:
            self.loop.call_soon(self._drain)

    # Sending and receiving data.

    def _send(self, data: bytes | None) -> None:
        network = self._network
        arrival_us = max(network.timeline.now_us + network.delay_us(), self._last_arrival_us)
        self._last_arrival_us = arrival_us
        self._in_flight.append((arrival_us, data))
        self.queued_bytes += len(data or b"")
        if self._stuck_since_us is None:
            network.timeline.after(arrival_us - network.timeline.now_us, self._arrive)

    def _arrive(self) -> None:
        network, under_way = self._network, self._in_flight
        now_us = network.timeline.now_us
        while under_way and under_way[0][0] <= now_us:
            if not network.is_passable(self.host, self.peer_host):
                self._retry(now_us)
                return
            data = under_way.popleft()[1]
            self.queued_bytes -= len(data or b"")
            network.trace(self.host, self.peer_host, self.number, data)
            other = self._other
            assert other is not None, "a socket without another end"
            if not other.is_open or not other.loop.is_alive:
                if data is not None:
                    network.timeline.after(network.delay_us(), lambda: self.fail("reset: the peer has closed it"))
                continue
            other._inbox.append(data)
            other.loop.call_soon(other._drain)
        if self._stuck_since_us is not None:
            self._stuck_since_us, self._retries = None, 0
            if under_way:
                network.timeline.after(under_way[0][0] - now_us, self._arrive)

    def _retry(self, now_us: int) -> None:
        if self._stuck_since_us is None:
            self._stuck_since_us = now_us
        if now_us - self._stuck_since_us >= GIVE_UP_US:
            self.fail("timed out")
            return
        self._retries += 1
        self._network.timeline.after(min(RETRY_US << min(self._retries, 8), RETRY_US_MAX), self._arrive)

    def _drain(self) -> None:
        while self._inbox and self.received is not None and self.is_reading and self.is_open:
            data = self._inbox.popleft()
            if data is None:
                self.is_open = False
                if self.lost is not None:
                    self.lost("closed by the other end")
            else:
                self.received(data)


class Network:
    def __init__(self, timeline: Timeline, random: Random) -> None:
        self.timeline = timeline
        self.random = random
        self.delay_mean_us = 500
        self.tail = 0.0  # the fraction of messages that take a hundred times as long
        self.blocked: set[Way] = set()
        self.powered_down: set[str] = set()
        self.digest = sha1(usedforsecurity=False)  # covers everything that has arrived; equal runs have equal digests
        self._listening: dict[tuple[str, int], tuple[SimulatedLoop, Callable[[Socket], None]]] = {}
        self._sockets: list[Socket] = []
        self._connections = 0

    def delay_us(self) -> int:
        delay = 50 + int(self.random.expovariate(1 / self.delay_mean_us))
        return delay * 100 if self.tail and self.random.random() < self.tail else delay

    def is_passable(self, source: str, destination: str) -> bool:
        return (source, destination) not in self.blocked and destination not in self.powered_down

    def trace(self, source: str, destination: str, number: int, data: bytes | None) -> None:
        line = f"{self.timeline.now_us} {source} {destination} {number} {-1 if data is None else len(data)}\n"
        self.digest.update(line.encode())
        if data:
            self.digest.update(data)

    # Methods called by processes.

    def listen(self, host: str, port: int, loop: SimulatedLoop, accept: Callable[[Socket], None]) -> None:
        """Accept connections.  `accept` sets the callbacks of the socket before any data arrives."""
        self._listening[host, port] = (loop, accept)

    def stop_listening(self, loop: SimulatedLoop) -> None:
        self._listening = {place: it for place, it in self._listening.items() if it[0] is not loop}

    def dial(
        self,
        loop: SimulatedLoop,
        host: str,
        address: tuple[str, int],
        connected: Callable[[Socket], None],
        failed: Callable[[str], None],
    ) -> None:
        """Connect to `address`, then call `connected` or `failed` on `loop`."""
        give_up_us = self.timeline.now_us + CONNECT_US

        def syn() -> None:
            if not self.is_passable(host, address[0]) or not self.is_passable(address[0], host):
                if self.timeline.now_us >= give_up_us:
                    loop.call_soon(failed, f"{address[0]}:{address[1]} timed out")
                else:
                    self.timeline.after(RETRY_US * 4, syn)
                return
            listening = self._listening.get(address)
            if listening is None or not listening[0].is_alive:
                loop.after(self.delay_us(), lambda: failed(f"{address[0]}:{address[1]} refused the connection"))
                return
            self._connect(loop, host, address[0], listening, connected)

        self.timeline.after(self.delay_us(), syn)

    def _connect(
        self,
        loop: SimulatedLoop,
        host: str,
        peer_host: str,
        listening: tuple[SimulatedLoop, Callable[[Socket], None]],
        connected: Callable[[Socket], None],
    ) -> None:
        self._connections += 1
        here = Socket(self, loop, host, peer_host, self._connections)
        there = Socket(self, listening[0], peer_host, host, self._connections)
        here._other, there._other = there, here
        self._sockets = [socket for socket in self._sockets if socket.is_open and socket.loop.is_alive]
        self._sockets += [here, there]
        listening[0].call_soon(listening[1], there)

        def established() -> None:
            if loop.is_alive:
                loop.call_soon(connected, here)
                loop.call_soon(here._drain)  # the acceptor may already have sent data
            else:
                here.abort()

        self.timeline.after(self.delay_us(), established)

    def connected_hosts(self) -> list[str]:
        """Return each host with an open connection once, in the order of their first connections."""
        return list(dict.fromkeys(socket.host for socket in self._sockets if socket.is_open))

    # Injecting faults.

    def process_died(self, loop: SimulatedLoop) -> None:
        """Close the sockets of a dead process, as its kernel does."""
        self.stop_listening(loop)
        for socket in self._sockets:
            if socket.loop is loop:
                socket.close()

    def power_lost(self, host: str, loop: SimulatedLoop) -> None:
        """Cut off a host that has lost power: no data reaches it until `power_back`."""
        self.stop_listening(loop)
        self.powered_down.add(host)
        for socket in self._sockets:
            if socket.loop is loop:
                socket.vanish()

    def power_back(self, host: str) -> None:
        self.powered_down.discard(host)

    def lose_connection(self) -> None:
        """
        Lose a random connection, at both ends or at only one.  In the latter case, the other end notices the loss when
        it sends.
        """
        open_now = [socket for socket in self._sockets if socket.is_open and socket.loop.is_alive]
        if not open_now:
            return
        socket = self.random.choice(open_now)
        other = socket._other
        socket.fail("reset")
        if other is not None and self.random.random() < 0.5:
            other.fail("reset")

    def heal(self) -> None:
        self.blocked.clear()
        self.tail = 0.0
