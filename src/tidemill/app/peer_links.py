"""The links of this process to other brokers, and the listener `tidemill.peer.listener`."""

import asyncio
from collections.abc import Callable, Collection

from tidemill.app.listeners import Address, Listener
from tidemill.model.entropy import Entropy
from tidemill.peer.link import LinkOwner
from tidemill.runtime.peer_transport import PeerTransport


class PeerLinks:
    """Implements `peer.link.Links`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        owner: LinkOwner,
        key: bytes,
        entropy: Entropy,
        report: Callable[[str], None],
    ) -> None:
        self._listener = listener
        self._transport = PeerTransport(loop, owner, key, entropy, report)

    @property
    def last_failure(self) -> str | None:
        return self._transport.last_failure

    async def listen(self) -> str:
        """Listen, and return the advertised address.  Raises OSError if the address cannot be bound."""
        bind = self._listener.bind
        await self._transport.bind(bind.host, bind.port)
        await self._transport.serve()
        address = self._listener.advertised_as(self._transport.addresses[0][1])
        return str(Address(address.host, address.port))

    def reach(self, addresses: Collection[str]) -> None:
        self._transport.reach(addresses)

    def close(self) -> None:
        self._transport.close()
