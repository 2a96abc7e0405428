"""The ports between a broker and the connections to its peers.

`Link` and `Links` are implemented by `runtime/peer_transport` and by the simulated network.  All calls, in both
directions, are made on the event loop's thread.

    dialled or accepted, and authenticated ──▶ owner.linked ──▶ received … ──▶ lost(why), once, the last call

The owner never has two links to brokers with the same replica key: `lost` is called for a replaced link before `linked`
is called for the new one.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from tidemill.peer.hello import Hello

Buffer = bytes | bytearray | memoryview


class Link(Protocol):
    """One authenticated connection to another broker's process."""

    @property
    def hello(self) -> Hello:
        """The other end's Hello."""
        ...

    def send(self, parts: Sequence[Buffer]) -> bool:
        """Send one frame without copying it; the parts must not change afterwards.

        Return False when the link is closed or its queue is full: the frame is dropped, and the sender must retry.
        """
        ...

    def close(self, why: str) -> None:
        """Close the link and send the reason to the other end.

        The owner's `lost` is called before this returns.  Closing again does nothing.
        """
        ...


class Links(Protocol):
    """All links of a broker."""

    @property
    def last_failure(self) -> str | None:
        """The reason why the last attempt to establish a link failed; None if none has failed."""
        ...

    @property
    def last_refusal(self) -> str | None:
        """
        Why this broker last refused the other end of a dial or of a connection, such as for its cluster key; None if
        there was no such refusal since the last link was established.  Only a changed setting can end it.
        """
        ...

    def reach(self, addresses: Collection[str]) -> None:
        """Keep a link to each of these addresses (host:port).

        Each is dialled until a link is established, with a jittered back-off of 50 ms to 1 s, and again whenever the
        link is lost.  A further call replaces the set of addresses; links to other addresses stay open until either
        end closes them.
        """
        ...

    async def listen(self, last_address: str) -> str:
        """Accept links from other brokers, and return the advertised host:port.

        `last_address` is the address that this broker advertised before its restart, or empty.  A listener with port 0
        takes the port of that address again if it is free, so that other brokers reach this one immediately.  A broker
        that has not joined a cluster yet does not listen.
        """
        ...

    def close(self) -> None:
        """Close every link, and establish no more."""
        ...


class LinkOwner(Protocol):
    """The broker's side of its links.  An exception that it raises is reported and closes only the link concerned."""

    def hello(self) -> Hello:
        """Return this broker's current Hello."""
        ...

    def linked(self, link: Link) -> str | None:
        """Handle a new link, which can be used immediately.

        Return None to accept it, or the reason for refusing it: the link is then closed without a call to `lost`.
        """
        ...

    def received(self, link: Link, frame: memoryview) -> None:
        """Handle one frame (`peer/frame.sections`).  The owner may keep the frame's memory, which is writable."""
        ...

    def lost(self, link: Link, why: str) -> None:
        """Handle the loss of a link, whichever side closed it; called once for each link that was not refused."""
        ...
