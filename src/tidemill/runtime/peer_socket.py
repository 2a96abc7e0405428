"""One socket to another broker.  It connects the event loop's transport with the link's session and owner.

    connected ──▶ registry.connected ──▶ handshake, 5 s ──▶ registry.proven: a link
              ──▶ frames … ──▶ registry.ended(why, refusal), once

An error closes only this socket.  A link queues at most QUEUE_BYTES_MAX; a frame that does not fit is rejected.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, cast

from tidemill.peer.frame import FRAME_BYTES_MAX
from tidemill.peer.hello import Hello
from tidemill.peer.link import Buffer, LinkOwner
from tidemill.peer.session import KEY_DIFFERS, PeerLeft, PeerRefused, Session

HANDSHAKE_SECONDS: Final = 5.0
QUEUE_BYTES_MAX: Final = FRAME_BYTES_MAX
"""The limit on bytes that the kernel has not taken yet.  An empty queue has room for one frame of the maximum size."""

FLUSH_SECONDS: Final = 1.0
"""How long a closing socket may take to flush frames and the reason for closing before it is reset."""

DISCARDED_BYTES: Final = 4096
"""The size of the buffer for data that arrives while the socket is closing."""


class SocketRegistry(Protocol):
    """The owner of all sockets: `runtime/peer_transport`."""

    def connected(self, socket: "PeerSocket") -> None: ...

    def proven(self, socket: "PeerSocket") -> str | None:
        """Handle a completed handshake.

        Return None if the socket is accepted as a link or is parked; otherwise a sentence with the reason to refuse it.
        """
        ...

    def ended(self, socket: "PeerSocket", why: str, refusal: PeerRefused | None) -> None:
        """Handle the end of a socket.  `refusal` is set if this end refuses the other end or something that it sent."""
        ...


class PeerSocket(asyncio.BufferedProtocol):
    """A socket to another broker; a `peer.link.Link` once the handshake is complete."""

    __slots__ = ("_loop", "_open", "_owner", "_registry", "_timer", "_transport", "is_parked", "other_end", "session")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, registry: SocketRegistry, owner: LinkOwner, session: Session
    ) -> None:
        self.session = session
        self.other_end = ""
        """The other end's host, for reports."""
        self.is_parked = False
        """Whether another link has replaced this one, which now only waits for the other end to close it."""
        self._loop = loop
        self._registry = registry
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._open = True
        self._timer: asyncio.TimerHandle | None = None

    # Methods called by the owner

    @property
    def hello(self) -> Hello:
        assert self.session.theirs is not None, "the handshake is not over"
        return self.session.theirs

    def send(self, parts: Sequence[Buffer]) -> bool:
        transport = self._transport
        if not self._open or self.is_parked or transport is None:
            return False
        if transport.get_write_buffer_size() + sum(map(len, parts)) > QUEUE_BYTES_MAX:
            return False
        transport.writelines(self.session.seal(parts))
        return True

    def close(self, why: str) -> None:
        if not self.is_parked:
            self.end(why, send_reason=True)

    # Methods called by the registry

    def end(self, why: str, *, send_reason: bool, refusal: PeerRefused | None = None) -> None:
        """Stop receiving and sending.  With `send_reason`, flush queued frames and send the reason before closing."""
        if not self._open:
            return
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            if send_reason:
                self._transport.writelines(self.session.farewell(why))
                self._transport.close()
                self._timer = self._loop.call_later(FLUSH_SECONDS, self._transport.abort)
            else:
                self._loop.call_soon(self._transport.abort)  # Deferred, because libuv may be about to use the socket.
        self._registry.ended(self, why, refusal)

    # Methods called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not declare this base class
        if not self._open:
            self._transport.abort()
            return
        name = transport.get_extra_info("peername")
        self.other_end = str(name[0]) if isinstance(name, tuple) else ""
        self._timer = self._loop.call_later(HANDSHAKE_SECONDS, self._handshake_timed_out)
        self._registry.connected(self)
        if self.session.is_dialler:
            self._transport.writelines(self.session.opening())

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Return the buffer for the next bytes.  Must not raise, or uvloop 0.23 would call it in a busy loop."""
        if self._open:
            try:
                return self.session.get_buffer(sizehint)
            except PeerRefused as refused:
                self.end(str(refused), send_reason=False, refusal=refused)
            except Exception as error:
                self._fail(error)
        return bytearray(DISCARDED_BYTES)

    def buffer_updated(self, nbytes: int) -> None:
        if not self._open:
            return
        try:
            self._receive(nbytes)
        except PeerLeft as left:
            self.end(str(left), send_reason=False)
        except PeerRefused as refused:
            self.end(str(refused), send_reason=True, refusal=refused)
        except Exception as error:
            self._fail(error)

    def eof_received(self) -> None:
        self.end(self._eof(), send_reason=False)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._open:
            self.end(f"the connection broke: {exc}" if exc else self._eof(), send_reason=False)
        elif self._timer is not None:
            self._timer.cancel()

    def _receive(self, count: int) -> None:
        session = self.session
        is_link = session.theirs is not None
        answers = session.received(count)
        if answers and self._transport is not None:
            self._transport.writelines(answers)
        if session.theirs is None:
            return
        if not is_link:
            self._become_link()
        if self._open:
            for frame in session.frames():
                if not self.is_parked:
                    self._owner.received(self, frame)
                if not self._open:
                    return

    def _become_link(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        refusal = self._registry.proven(self)
        if refusal is not None:
            self.end(refusal, send_reason=True)

    def _handshake_timed_out(self) -> None:
        self._timer = None
        self.end(f"the handshake was not complete within {HANDSHAKE_SECONDS:.0f} s", send_reason=False)

    def _eof(self) -> str:
        if self.session.theirs is not None:
            return "the other end closed the connection"
        return f"the other end closed the connection during the handshake; {KEY_DIFFERS}"

    def _fail(self, error: Exception) -> None:
        """Report an unexpected exception to the loop's exception handler, and close only this link."""
        context = {"message": f"a link to {self.other_end} failed", "exception": error, "protocol": self}
        self._loop.call_exception_handler(context)
        self.end(f"internal error of this broker: {error!r}", send_reason=False)
