"""One client's Kafka connection: it receives frames, runs the handlers and sends the responses in request order.

    bytes ─▶ frames ─▶ handler ─▶ response, or Pending ─▶ ... ─▶ responses, in order ─▶ bytes

Requests on one connection take effect in order: each request sees the effects of all earlier ones.

    request    begins when
    Produce    every earlier request that is not Produce has been answered, and every batch of earlier ones has been
               appended or refused
    any other  every earlier request has been answered

Produce requests are pipelined: each batch enters the log as soon as its request begins, so batches stay in request
order, and one journal write covers many of them.  Every other request waits, as in Kafka, which handles one request per
connection at a time.  Produce waits for other requests so that a Produce after CreateTopics finds the topic, and a
Produce after a Fetch does not change what that Fetch returns.  A Produce request with acks=0 has no response; it counts
as answered when its batches are in this broker's journal.  A batch that is being recompressed (`compression.type`), or
waits for the next turn of the loop, is not in the log yet, so no further request begins.

So the unanswered requests of a connection are either all Produce requests, or a single request of another kind.  A long
poll (Fetch, JoinGroup) delays all later requests on the same connection.

While one of the following is at its bound, no further request is started, and the broker does not read from the
connection.  The right column shows the event after which the connection continues:

    unsent responses, or responses held for an earlier one     `resume_writing`, or the earlier request's response
    unanswered requests, and the bytes that they keep          `_completed`
    the next frame, while it must wait for earlier requests    `_completed`, `release`
    the work for one connection in one turn of the loop        the next turn
    the memory of all connections together                     `room_again`, called by `ConnectionMemory`

A frame that must wait stays in the receive buffer.  Reading stops as soon as the frame's API key is known, so that a
large request behind a long poll does not fill the memory that all connections share.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from tidemill.broker.broker import Broker
from tidemill.broker.clients.pipelines import Pipelines
from tidemill.broker.connection.dispatch import HANDLERS, OFFERED, UNLISTED
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.failure import failure_response
from tidemill.wire.first_bytes import ClientProtocol, protocol_of
from tidemill.wire.frame import FrameBuffer
from tidemill.wire.messages import produce
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Message
from tidemill.wire.server_connection import RequestEnvelope, ServerConnection

Buffer = bytes | bytearray | memoryview

IN_FLIGHT_MAX: Final = 1_000  # unanswered requests of one connection; librdkafka sends up to 1,000,000 by default
# Bytes of one connection's unanswered requests: a quarter of `REQUESTS_BYTES_MAX`, the default for all connections.
IN_FLIGHT_BYTES_MAX: Final = 64 << 20
PIPELINED: Final = produce.API.key
ANSWERS_BYTES_MAX: Final = 1 << 20  # bytes of unsent responses at which no further request is started
TURN_REQUESTS_MAX: Final = 128  # requests started on one connection per turn, before other connections are served
# Responses below this size are counted in `ConnectionMemory` only once the client stops reading.
UNREAD_BYTES_MIN: Final = 16 << 10


class Writer(Protocol):
    """The part of a socket that a connection uses."""

    @property
    def peer(self) -> tuple[str, int]: ...

    @property
    def unsent_bytes(self) -> int: ...

    def send(self, parts: Sequence[Buffer]) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class KafkaConnection:
    """A client's connection; implements `runtime.tcp_server.Connection`."""

    def __init__(self, broker: Broker, listener: str, writer: Writer, frame_bytes_max: int) -> None:
        self.broker = broker
        self.listener = listener
        self.writer = writer
        self.offered = OFFERED.keys()
        self.pipelines = Pipelines()
        self._frames = FrameBuffer(frame_bytes_max)
        self._wire = ServerConnection(OFFERED, unlisted=UNLISTED)
        self._awaited: dict[RequestEnvelope, Pending[Message | None]] = {}
        self._in_flight_bytes = 0  # bytes of the unanswered requests that must stay in memory
        self._out: list[Buffer] = []
        self._out_bytes = 0  # bytes of the encoded responses in `_out`, which the next write sends
        self._held_bytes = 0  # bytes of responses that wait for the response to an earlier request
        self._turn_requests = 0  # requests started since the last turn of this connection
        self._turn_bytes = 0  # bytes sent since the last turn
        self._is_open = True
        self._is_working = False
        self._is_paused = False
        self._is_writing_paused = False
        self._is_stopping = False
        self._is_held = False
        self._is_turn_scheduled = False
        broker.connections[self] = None
        broker.metrics.connections += 1
        broker.metrics.connections_accepted += 1

    # Methods that receive requests.

    def get_buffer(self, size_hint: int) -> bytearray | memoryview:
        return self._frames.get_buffer(size_hint)

    def received(self, count: int) -> None:
        self._frames.received(count)
        self._work_off()

    def _work_off(self) -> None:
        """Start the requests that have arrived, as long as no bound is reached; then pause or resume reading."""
        frames = self._frames
        coming: Iterator[memoryview] = frames.frames()
        has_more = True
        self._is_working = True
        clock = self.broker.clock
        now_ms, begun_ms = clock.wall_ms(), clock.monotonic_ms()
        try:
            while has_more and not self._is_full():
                frame = next(coming, None)
                if frame is None:
                    has_more = False
                else:
                    self._turn_requests += 1
                    self._frame(frame, now_ms, begun_ms)
        except ProtocolError as error:
            self._refused(error)
            self._is_open = False
            self.writer.abort()
            return
        finally:
            self._is_working = False
        if not self._is_open:
            return
        if self._out:
            self._flush()
        self.broker.memory.arriving(self, frames.arriving_bytes)
        self._pace(has_more=has_more)

    def _refused(self, error: ProtocolError) -> None:
        """
        Count and log bytes that are not a Kafka request.  If they belong to another known protocol, the event names it.
        """
        broker = self.broker
        broker.metrics.protocol_errors += 1
        arrived = protocol_of(self._frames.unparsed())
        if arrived in (ClientProtocol.TLS, ClientProtocol.HTTP):
            broker.refused_protocol(self.listener, self.writer.peer, arrived)
        else:
            broker.refused_connection(self.writer.peer, error)

    def _frame(self, frame: memoryview, now_ms: int, begun_ms: int) -> None:
        envelope = self._wire.receive(frame)
        envelope.begun_ms = begun_ms
        broker = self.broker
        metrics = broker.metrics
        metrics.bytes_received += envelope.size
        key = envelope.api.key
        counters = metrics.apis[key]
        counters.requests += 1
        if envelope.answer is not None:
            counters.count_error(errors.UNSUPPORTED_VERSION)
            self._respond(envelope, envelope.answer)
            return
        context = RequestContext(broker, self, envelope.version, envelope.client_id, now_ms)
        try:
            outcome: Any = HANDLERS[key](envelope.request, context)
        except Exception as error:
            self._failed(envelope, error)
            return
        if not isinstance(outcome, Pending):
            self._answer(envelope, outcome)
            return
        if not outcome.is_done:
            self._awaited[envelope] = outcome
            if outcome.keeps_request:
                self._in_flight_bytes += envelope.size
                broker.memory.begin_work(envelope.size)
            else:
                envelope.request = None  # frees the request's memory while the response is pending
        outcome.then(
            lambda response: self._completed(envelope, outcome, response),
            lambda _: self._completed(envelope, outcome, None),
        )

    def _completed(self, envelope: RequestEnvelope, outcome: Pending[Message | None], response: Message | None) -> None:
        """
        Send the response.  Any part of the broker may complete a `Pending`, so this method neither raises an exception
        nor starts another request.
        """
        if self._awaited.pop(envelope, None) is not None and outcome.keeps_request:
            self._in_flight_bytes -= envelope.size
            self.broker.memory.end_work(envelope.size)
        if not self._is_open:
            return
        if outcome.failure is not None:
            self._failed(envelope, outcome.failure)
        else:
            self._answer(envelope, response)
        self._wake()

    # Methods that send responses.

    def _answer(self, envelope: RequestEnvelope, response: Message | None) -> None:
        """Encode and send a response.  `response` is None for a request without a response (acks=0)."""
        if not self._is_open:
            return
        try:
            parts = None if response is None else envelope.encode(response)
        except Exception as error:
            self._failed(envelope, error)
            return
        if response is not None and (error_codes := envelope.api.errors_in(response)):
            counters = self.broker.metrics.apis[envelope.api.key]
            for error_code in error_codes:
                counters.count_error(error_code)
        self._respond(envelope, parts)

    def _failed(self, envelope: RequestEnvelope, error: BaseException) -> None:
        """
        Report an unexpected exception to the client: with an error code if the response has a field for one, otherwise
        by closing the connection.
        """
        self.broker.request_failed(envelope.api, envelope.version, self.writer.peer, error)
        response = failure_response(envelope.api, envelope.version)
        if response is None:
            self.close()
        elif self._is_open:
            self._respond(envelope, envelope.encode(response))

    def _respond(self, envelope: RequestEnvelope, parts: list[Buffer] | None) -> None:
        broker = self.broker
        latencies = broker.metrics.apis[envelope.api.key].latencies
        latencies.observe(broker.clock.monotonic_ms() - envelope.begun_ms)
        size = sum(map(len, parts)) if parts else 0
        sendable = self._wire.respond(envelope, parts)
        if envelope.held is not None:
            self._held_bytes += size
        elif self._held_bytes:
            self._held_bytes -= sum(map(len, sendable)) - size
        if size >= UNREAD_BYTES_MIN:
            broker.memory.unread(self, self.unread_bytes + size)
        if not sendable:
            return
        if not self._out and not self._is_working:
            broker.machine.turns.call_soon(self._flush)
        self._out += sendable
        self._out_bytes += size if sendable is parts else sum(map(len, sendable))

    def _flush(self) -> None:
        """Send the responses of this turn with one write."""
        if not self._out:
            return
        out, self._out = self._out, []
        size, self._out_bytes = self._out_bytes, 0
        self._turn_bytes += size
        self.broker.metrics.bytes_sent += size
        self.writer.send(out)

    @property
    def unread_bytes(self) -> int:
        """
        The bytes of responses that wait for this turn's write or for earlier responses, or are in the socket's buffer.
        """
        return self._out_bytes + self._held_bytes + self.writer.unsent_bytes

    # Methods for back-pressure: they decide when requests must wait, and pause reading from the socket.

    def _is_full(self) -> bool:
        return (
            not self._is_open
            or self._is_writing_paused
            or self._out_bytes + self._turn_bytes + self._held_bytes >= ANSWERS_BYTES_MAX
            or len(self._wire.pending) >= IN_FLIGHT_MAX
            or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX
            or self._turn_requests >= TURN_REQUESTS_MAX
            or self._is_stopping
            or self._is_held
            or not (self.broker.memory.has_room or self._may_resume())
            or self._must_wait()
        )

    def _must_wait(self) -> bool:
        """Return whether the next frame must wait for the responses to earlier requests."""
        unanswered = self._wire.pending
        if not unanswered:
            return False
        key = self._frames.next_key()
        return key is not None and (key != PIPELINED or unanswered[-1].api.key != PIPELINED)

    def _may_resume(self) -> bool:
        """Return whether this connection may start requests although the memory for all connections is exhausted."""
        memory = self.broker.memory
        return memory.may_receive(self) and memory.may_answer(self)

    def _pace(self, *, has_more: bool = False) -> None:
        """Pause or resume reading from the socket.  `has_more`: complete frames may be left in the receive buffer."""
        if self._turn_requests >= TURN_REQUESTS_MAX // 8 or self._turn_bytes >= ANSWERS_BYTES_MAX // 8:
            self._schedule_turn()
        is_full = self._is_full()
        if is_full and self._is_open and not self._may_resume():
            self.broker.memory.wait(self)
        if is_full or has_more:
            if not self._is_paused:
                self._is_paused = True
                self.writer.pause_reading()
            if not is_full:
                self._schedule_turn()  # no bound is reached any more: the next turn handles the frames that are left
        elif self._is_paused:
            self._is_paused = False
            self.writer.resume_reading()

    def _wake(self) -> None:
        """If reading is paused, schedule a turn that processes waiting requests."""
        if self._is_paused:
            self._schedule_turn()

    def _schedule_turn(self) -> None:
        """
        Schedule a turn of this connection, never immediately, because the caller may be in the middle of other work.
        """
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self.broker.machine.turns.call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_turn_scheduled = False
        self._turn_requests = self._turn_bytes = 0
        if self._is_paused and self._is_open:
            self._work_off()

    def room_again(self) -> None:
        self._wake()

    def hold(self) -> None:
        self._is_held = True

    def release(self) -> None:
        self._is_held = False
        self._wake()

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        if self._is_open:
            self.broker.memory.unread(self, self.unread_bytes)
            self._pace()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        if self._is_open:
            self.broker.memory.unread(self, self.unread_bytes)
            self._wake()

    # Methods that close the connection.

    @property
    def is_answering(self) -> bool:
        """Whether the client is waiting for a response."""
        return bool(self._awaited)

    @property
    def peer(self) -> tuple[str, int]:
        return self.writer.peer

    def close(self) -> None:
        """Close the connection after sending the responses that are ready.  Unanswered requests get no response."""
        if self._is_open:
            self._flush()
            self._is_open = False
            self.writer.close()

    def stop_receiving(self) -> None:
        """Respond to the requests in progress and start no others, so that the broker can stop."""
        self._is_stopping = True
        if self._is_open:
            self._pace()

    def give_up(self, reason: str) -> None:
        self._is_open = False
        self.broker.refused_connection(self.writer.peer, ConnectionError(reason))
        self.writer.abort()

    def lost(self, reason: Exception | None) -> None:
        self._is_open = False
        self._out.clear()
        self._wire.forget()
        for envelope, outcome in [*self._awaited.items()]:
            outcome.cancel()
            if outcome.is_done:
                self._awaited.pop(envelope, None)
        self.broker.metrics.connections -= 1
        self.broker.connection_lost(self)
