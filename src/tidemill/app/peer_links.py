"""The links of this process to other brokers, and the listener `tidemill.peer.listener`."""

import asyncio
import contextlib
from collections.abc import Collection

from tidemill.app.listeners import Address, Listener
from tidemill.model.entropy import Entropy
from tidemill.peer.link import LinkOwner
from tidemill.runtime.peer_transport import PeerTransport
from tidemill.telemetry.event_log import EventLog


class PeerLinks:
    """The links of this process to other brokers; implements `peer.link.Links`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        owner: LinkOwner,
        key: bytes,
        entropy: Entropy,
        events: EventLog,
    ) -> None:
        self._listener = listener
        self._transport = PeerTransport(loop, owner, key, entropy, events)

    @property
    def last_failure(self) -> str | None:
        return self._transport.reports.last_failure

    @property
    def last_refusal(self) -> str | None:
        return self._transport.reports.last_refusal

    async def listen(self, last_address: str) -> str:
        """Listen, and return the advertised address.  Raises OSError if the address cannot be bound.

        If the settings allow any free port, prefer the port of `last_address`, the address at the last start.
        """
        await self._bind(self._listener.bind, last_address)
        await self._transport.serve()
        address = self._listener.advertised_as(self._transport.addresses[0][1])
        return str(Address(address.host, address.port))

    async def _bind(self, bind: Address, last_address: str) -> None:
        last_host, _, last_port = last_address.rpartition(":")
        if not bind.port and last_host == bind.host and self._listener.advertised is None:
            with contextlib.suppress(OSError):  # another process may use the port by now
                await self._transport.bind(bind.host, int(last_port))
                return
        await self._transport.bind(bind.host, bind.port)

    def reach(self, addresses: Collection[str]) -> None:
        self._transport.reach(addresses)

    def close(self) -> None:
        self._transport.close()
