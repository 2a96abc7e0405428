"""One client's connection: frames in, requests to their handlers, responses out in the order of the requests.

Bounded: at most `IN_FLIGHT_MAX` requests of a connection, and `queued.max.request.bytes` of all connections, are
being worked on; at either bound this connection is not read from until some are answered.  A client that does not
read its answers is not read from either.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from tidemill.broker.broker import Broker
from tidemill.broker.dispatch import HANDLERS, OFFERED
from tidemill.broker.request_context import RequestContext
from tidemill.shard.pending import Pending
from tidemill.wire.frame import FrameBuffer
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Message
from tidemill.wire.server_connection import RequestEnvelope, ServerConnection

Buffer = bytes | bytearray | memoryview
IN_FLIGHT_MAX: Final = 1_000  # requests of one connection; librdkafka sends up to 1,000,000 unless told otherwise


class Writer(Protocol):
    """The socket's side."""

    @property
    def peer(self) -> tuple[str, int]: ...

    def send(self, parts: Sequence[Buffer]) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class KafkaConnection:
    """What `runtime/tcp_server` calls a connection."""

    def __init__(self, broker: Broker, listener: str, writer: Writer, frame_bytes_max: int) -> None:
        self.broker = broker
        self.listener = listener
        self.writer = writer
        self.offered = OFFERED.keys()
        self._frames = FrameBuffer(frame_bytes_max)
        self._wire = ServerConnection(OFFERED)
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._is_paused = False
        self._is_writing_paused = False
        self._out: list[Buffer] = []
        self._is_collecting = False
        broker.connections[self] = None
        broker.metrics.connections += 1
        broker.metrics.connections_accepted += 1

    def get_buffer(self, size_hint: int) -> bytearray | memoryview:
        return self._frames.get_buffer(size_hint)

    def received(self, count: int) -> None:
        frames = self._frames
        self._is_collecting = True
        try:
            frames.received(count)
            for frame in frames.frames():
                self._frame(frame)
        except ProtocolError as error:
            self.broker.metrics.protocol_errors += 1
            self.broker.refused_connection(self.writer.peer, error)
            self.writer.abort()
            return
        finally:
            self._is_collecting = False
        if self._out:
            self._flush()
        self._pace()

    def _frame(self, frame: memoryview) -> None:
        envelope = self._wire.receive(frame)
        if envelope.answer is not None:
            self._send(self._wire.respond(envelope, envelope.answer))
            return
        broker = self.broker
        metrics = broker.metrics
        metrics.bytes_received += envelope.size
        key = envelope.api.key
        metrics.api(key).requests += 1
        context = RequestContext(broker, self, envelope.version, envelope.client_id, broker.clock.wall_ms())
        outcome: Any = HANDLERS[key](envelope.request, context)
        if isinstance(outcome, Pending):
            if not outcome.is_done:
                self._in_flight += 1
                self._in_flight_bytes += envelope.size
                broker.in_flight_bytes += envelope.size
                outcome.then(lambda response: self._completed(envelope, response))
                return
            outcome.then(lambda response: self._answer(envelope, response))
            return
        self._answer(envelope, outcome)

    def _completed(self, envelope: RequestEnvelope, response: Message | None) -> None:
        self._in_flight -= 1
        self._in_flight_bytes -= envelope.size
        self.broker.released(envelope.size)
        self._answer(envelope, response)
        if self._is_paused:
            self._pace()

    def _answer(self, envelope: RequestEnvelope, response: Message | None) -> None:
        """None means that nothing is sent (acks=0)."""
        self._send(self._wire.respond(envelope, None if response is None else envelope.encode(response)))

    def _send(self, parts: Sequence[Buffer]) -> None:
        if not parts:
            return
        if not self._out and not self._is_collecting:
            self.broker.machine.turns.call_soon(self._flush)
        self._out += parts

    def _flush(self) -> None:
        """What this turn produced leaves as one write."""
        out, self._out = self._out, []
        if out:
            self.broker.metrics.bytes_sent += sum(map(len, out))
            self.writer.send(out)

    def _pace(self) -> None:
        """Read on only while there is room for what would come."""
        is_full = (
            self._is_writing_paused
            or self._in_flight >= IN_FLIGHT_MAX
            or (self.broker.in_flight_bytes >= self.broker.in_flight_bytes_max and self._in_flight > 0)
        )
        if is_full and not self._is_paused:
            self._is_paused = True
            self.writer.pause_reading()
        elif not is_full and self._is_paused:
            self._is_paused = False
            self.writer.resume_reading()

    @property
    def is_answering(self) -> bool:
        """The client waits for us, not we for it."""
        return self._in_flight > 0

    @property
    def peer(self) -> tuple[str, int]:
        return self.writer.peer

    def close(self) -> None:
        """After what has been answered."""
        self._flush()
        self.writer.close()

    def room_again(self) -> None:
        """All connections together are below their bound again."""
        if self._is_paused:
            self._pace()

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        self._pace()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._pace()

    def lost(self, reason: Exception | None) -> None:
        self.broker.metrics.connections -= 1
        self.broker.connection_lost(self)
