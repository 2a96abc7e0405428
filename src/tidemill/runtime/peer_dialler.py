"""Keeps a link to one address of another broker: dials it with a back-off whenever there is no link."""

import asyncio
from typing import Final, Protocol

from tidemill.peer.session import PeerRefused
from tidemill.runtime.link_reports import LinkReports
from tidemill.runtime.peer_socket import HANDSHAKE_SECONDS, PeerSocket

BACK_OFF_SECONDS_MIN: Final = 0.05
BACK_OFF_SECONDS_MAX: Final = 1.0


class DiallingTransport(Protocol):
    """The owner of the diallers: `runtime/peer_transport`."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def reports(self) -> LinkReports: ...

    def dial(self, dialler: "PeerDialler") -> PeerSocket:
        """Return a new socket for `dialler` that is not connected yet."""
        ...

    def has_link(self, dialler: "PeerDialler") -> bool: ...

    def jittered(self, seconds: float) -> float:
        """Return a random duration between half of `seconds` and all of it."""
        ...


class PeerDialler:
    """Keeps a link to one address: it waits, dials, or has a link.  `dial_if_needed` dials if there is no link."""

    __slots__ = (
        "_failures",
        "_is_busy",
        "_socket",
        "_task",
        "_timer",
        "_transport",
        "address",
        "is_own",
        "is_stopped",
        "name",
        "reached",
    )

    def __init__(self, transport: DiallingTransport, address: str) -> None:
        self.address = address
        self.name = f"to {address}"
        self.reached: int | None = None
        """The incarnation that was last reached at this address; the link to it may be through another address."""
        self._transport = transport
        self._failures = -1  # consecutive failed dials; -1 before the first dial, which is not delayed
        self._is_busy = False  # True from the start of a dial until its socket is closed
        self.is_stopped = False
        self.is_own = False  # True if this process itself listens at the address
        self._timer: asyncio.TimerHandle | None = None
        self._socket: PeerSocket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the address is no longer dialled."""
        return self.is_stopped or self.is_own

    def dial_if_needed(self) -> None:
        if self.is_over or self._is_busy or self._timer is not None or self._is_linked():
            return
        back_off = min(BACK_OFF_SECONDS_MIN * 2 ** min(self._failures, 10), BACK_OFF_SECONDS_MAX)
        seconds = 0.0 if self._failures < 0 else self._transport.jittered(back_off)
        self._timer = self._transport.loop.call_later(seconds, self._dial)

    def stop(self) -> None:
        """Stop dialling; an established link stays open."""
        self.is_stopped = True
        self._transport.reports.forget(self.name)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None and self._socket is not None:
            self._task.cancel()
            self._socket.end("the address is no longer configured", send_reason=False)

    def ended(self, *, was_stable: bool) -> None:
        """Handle the end of the most recently dialled socket."""
        self._is_busy = False
        self._failures = 0 if was_stable else self._failures + 1

    def _is_linked(self) -> bool:
        is_linked = self._transport.has_link(self)
        if is_linked:
            self._transport.reports.linked(self.name)  # the other broker may have dialled this one
        return is_linked

    def _dial(self) -> None:
        self._timer = None
        if self._is_linked():
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
            socket.end(f"no connection within {HANDSHAKE_SECONDS:.0f} s", send_reason=False)
        except PeerRefused as refused:
            socket.end(str(refused), send_reason=False, refusal=refused)
        except (OSError, ValueError) as error:
            socket.end(str(error), send_reason=False)
        finally:
            self._task = None


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise PeerRefused(f"the address {address!r} is not host:port; correct tidemill.join or that broker's listener")
    return host.removeprefix("[").removesuffix("]"), int(port)
