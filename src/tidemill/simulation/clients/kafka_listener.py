"""The Kafka listener of a simulated broker, which passes bytes between the simulated network and `KafkaConnection`.

Bytes arrive in pieces of random size, as from a real socket: a read may end anywhere in a frame.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.connection.kafka_connection import Buffer, KafkaConnection
from tidemill.simulation.machine.event_loop import SimulatedLoop
from tidemill.simulation.machine.network import Network, Socket

LISTENER: Final = "PLAINTEXT"
KAFKA_PORT: Final = 9092
FRAME_BYTES_MAX: Final = 100 << 20


class SimulatedWriter:
    """The socket as `KafkaConnection` sees it."""

    active_at = 0.0  # not simulated

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    @property
    def peer(self) -> tuple[str, int]:
        return self._socket.peer_host, self._socket.number

    @property
    def unsent_bytes(self) -> int:
        return self._socket.queued_bytes

    def send(self, parts: Sequence[Buffer]) -> None:
        self._socket.send(b"".join(parts))

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def close(self) -> None:
        self._socket.close()
        self._end()

    def abort(self) -> None:
        self._socket.abort()
        self._end()

    def _end(self) -> None:
        """Schedule the call of the socket's `lost`, at most once, because this side has closed the connection."""
        if self._socket.lost is not None:
            self._socket.loop.call_soon(self._socket.lost, "closed here")
            self._socket.lost = None


def listen(broker: Broker, network: Network, loop: SimulatedLoop, host: str, random: Random) -> None:
    """Serve Kafka clients on KAFKA_PORT of `host`."""

    def accept(socket: Socket) -> None:
        connection = KafkaConnection(broker, LISTENER, SimulatedWriter(socket), FRAME_BYTES_MAX)

        def received(data: bytes) -> None:
            at = 0
            while at < len(data) and socket.is_open:
                buffer = connection.get_buffer(len(data) - at)
                count = min(len(buffer), len(data) - at)
                if random.random() < 0.2:
                    count = random.randint(1, count)
                buffer[:count] = data[at : at + count]
                connection.received(count)
                at += count

        socket.received = received
        socket.lost = lambda why: connection.lost(ConnectionResetError(why) if "reset" in why else None)

    network.listen(host, KAFKA_PORT, loop, accept)
