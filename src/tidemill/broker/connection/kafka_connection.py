"""One client's connection: frames in, requests to their handlers, responses out in the order of the requests.

    bytes ─▶ frames ─▶ handler ─▶ response, or Pending ─▶ … ─▶ responses, in order ─▶ bytes

Bounded everywhere.  While one of these is at its bound no further frame is handed on, and nothing more is read; each
has one who wakes the connection when it falls:

    answers that wait to be sent, here or for an earlier request's   `resume_writing`, or that request's answer
    requests that wait for their answer, and the bytes they keep     `_completed`
    what one turn of the loop may do for one connection              the next turn
    what all connections together may keep                           `room_again`, called by `ConnectionMemory`
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from tidemill.broker.broker import Broker
from tidemill.broker.connection.dispatch import HANDLERS, OFFERED
from tidemill.broker.connection.pipelines import Pipelines
from tidemill.broker.connection.request_context import RequestContext
from tidemill.shard.pending import Pending
from tidemill.wire.failure import failure_response
from tidemill.wire.frame import FrameBuffer
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Message
from tidemill.wire.server_connection import RequestEnvelope, ServerConnection

Buffer = bytes | bytearray | memoryview

IN_FLIGHT_MAX: Final = 1_000  # unanswered requests of one connection; librdkafka sends up to 1,000,000 unless told less
IN_FLIGHT_BYTES_MAX: Final = 64 << 20  # that they keep: more than a pipeline of producers needs, a quarter of them all
WAITING_MAX: Final = 16  # of those, which wait for something else than our disk (Fetch): clients send one at a time
ANSWERS_BYTES_MAX: Final = 1 << 20  # not sent yet, before further requests are looked at
TURN_REQUESTS_MAX: Final = 128  # of one connection in one turn: some 10 ms, then it is another's turn
UNREAD_BYTES_MIN: Final = 16 << 10  # smaller answers are counted with the others only when the client reads no more


class Writer(Protocol):
    """The socket's side."""

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
    """What `runtime/tcp_server` calls a connection."""

    def __init__(self, broker: Broker, listener: str, writer: Writer, frame_bytes_max: int) -> None:
        self.broker = broker
        self.listener = listener
        self.writer = writer
        self.offered = OFFERED.keys()
        self.pipelines = Pipelines()
        self._frames = FrameBuffer(frame_bytes_max)
        self._wire = ServerConnection(OFFERED)
        self._awaited: dict[RequestEnvelope, Pending] = {}
        self._waiting = 0  # of the awaited, those that keep no request
        self._in_flight_bytes = 0  # that the others keep
        self._out: list[Buffer] = []
        self._out_bytes = 0  # in `_out`
        self._held_bytes = 0  # answers that wait for an earlier request's
        self._turn_requests = 0  # handed on,
        self._turn_bytes = 0  # and sent, since the last turn that began for this connection
        self._is_open = True
        self._is_working = False
        self._is_paused = False
        self._is_writing_paused = False
        self._is_stopping = False
        self._is_turn_scheduled = False
        broker.connections[self] = None
        broker.metrics.connections += 1
        broker.metrics.connections_accepted += 1

    # Bytes in.

    def get_buffer(self, size_hint: int) -> bytearray | memoryview:
        return self._frames.get_buffer(size_hint)

    def received(self, count: int) -> None:
        self._frames.received(count)
        self._work_off()

    def _work_off(self) -> None:
        """Hand on what has come, while there is room for the answers; then read on, or not."""
        frames = self._frames
        coming: Iterator[memoryview] = frames.frames()
        has_more = True
        self._is_working = True
        now_ms = self.broker.clock.wall_ms()
        try:
            while has_more and not self._is_full():
                frame = next(coming, None)
                if frame is None:
                    has_more = False
                else:
                    self._turn_requests += 1
                    self._frame(frame, now_ms)
        except ProtocolError as error:
            self.broker.metrics.protocol_errors += 1
            self.broker.refused_connection(self.writer.peer, error)
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

    def _frame(self, frame: memoryview, now_ms: int) -> None:
        envelope = self._wire.receive(frame)
        if envelope.answer is not None:
            self._respond(envelope, envelope.answer)
            return
        broker = self.broker
        metrics = broker.metrics
        metrics.bytes_received += envelope.size
        key = envelope.api.key
        metrics.apis[key].requests += 1
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
                self._waiting += 1
                envelope.request = None  # the answer needs it no more, and it may wait for long
        outcome.then(lambda response: self._completed(envelope, outcome, response))

    def _completed(self, envelope: RequestEnvelope, outcome: Pending, response: Message | None) -> None:
        """Called from wherever the answer was found: nothing is raised, and no other request begins in here."""
        if self._awaited.pop(envelope, None) is not None:
            if outcome.keeps_request:
                self._in_flight_bytes -= envelope.size
                self.broker.memory.end_work(envelope.size)
            else:
                self._waiting -= 1
        if not self._is_open:
            return
        if outcome.failure is not None:
            self._failed(envelope, outcome.failure)
        else:
            self._answer(envelope, response)
        self._wake()

    # Answers out.

    def _answer(self, envelope: RequestEnvelope, response: Message | None) -> None:
        """None means that nothing is sent (acks=0)."""
        if not self._is_open:
            return
        try:
            parts = None if response is None else envelope.encode(response)
        except Exception as error:
            self._failed(envelope, error)
            return
        self._respond(envelope, parts)

    def _failed(self, envelope: RequestEnvelope, error: BaseException) -> None:
        """Our mistake: the client is told so where the response has a word for it, else its connection ends."""
        self.broker.request_failed(envelope.api, envelope.version, self.writer.peer, error)
        response = failure_response(envelope.api, envelope.version)
        if response is None:
            self.close()
        elif self._is_open:
            self._respond(envelope, envelope.encode(response))

    def _respond(self, envelope: RequestEnvelope, parts: list[Buffer] | None) -> None:
        size = sum(map(len, parts)) if parts else 0
        sendable = self._wire.respond(envelope, parts)
        if envelope.held is not None:
            self._held_bytes += size
        elif self._held_bytes:
            self._held_bytes -= sum(map(len, sendable)) - size
        if size >= UNREAD_BYTES_MIN:
            self.broker.memory.unread(self, self.unread_bytes + size)
        if not sendable:
            return
        if not self._out and not self._is_working:
            self.broker.machine.turns.call_soon(self._flush)
        self._out += sendable
        self._out_bytes += size if sendable is parts else sum(map(len, sendable))

    def _flush(self) -> None:
        """What this turn produced leaves as one write."""
        if not self._out:
            return
        out, self._out = self._out, []
        size, self._out_bytes = self._out_bytes, 0
        self._turn_bytes += size
        self.broker.metrics.bytes_sent += size
        self.writer.send(out)

    @property
    def unread_bytes(self) -> int:
        """Answers that wait to be sent, here, for earlier ones, or in the socket's buffer."""
        return self._out_bytes + self._held_bytes + self.writer.unsent_bytes

    # Pace.

    def _is_full(self) -> bool:
        return (
            not self._is_open
            or self._is_writing_paused
            or self._out_bytes + self._turn_bytes + self._held_bytes >= ANSWERS_BYTES_MAX
            or len(self._wire.pending) >= IN_FLIGHT_MAX
            or self._waiting >= WAITING_MAX
            or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX
            or self._turn_requests >= TURN_REQUESTS_MAX
            or self._is_stopping
            or not (self.broker.memory.has_room or self._may_resume())
        )

    def _may_resume(self) -> bool:
        """Whatever all connections together keep."""
        memory = self.broker.memory
        return memory.may_receive(self) and memory.may_answer(self, is_owed=self._waiting > 0)

    def _pace(self, *, has_more: bool = False) -> None:
        """Read on only while there is room for what would come; `has_more` tells of frames that were left."""
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
                self._schedule_turn()  # there was none when they were left, and there is room by now
        elif self._is_paused:
            self._is_paused = False
            self.writer.resume_reading()

    def _wake(self) -> None:
        """Something that this connection may have waited for has happened."""
        if self._is_paused:
            self._schedule_turn()

    def _schedule_turn(self) -> None:
        """Never at once: who wakes us may be in the middle of another's work."""
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

    # Ends.

    @property
    def is_answering(self) -> bool:
        """The client waits for us, not we for it."""
        return bool(self._awaited)

    @property
    def peer(self) -> tuple[str, int]:
        return self.writer.peer

    def close(self) -> None:
        """After what has been answered; what is still being worked on is answered to nobody."""
        if self._is_open:
            self._flush()
            self._is_open = False
            self.writer.close()

    def stop_receiving(self) -> None:
        """What has been asked is answered, nothing more is: a broker that stops would never come to an end."""
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
