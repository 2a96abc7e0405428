"""The ports between a broker and the connections to its peers.

Twins of `Link` and `Links`: `runtime/peer_transport`, and the simulated network.  All calls are made on the loop's
thread, both ways.

    dialled or accepted, and proven ──▶ owner.linked ──▶ received … ──▶ lost(why), once, the last call

The owner never has two links to one voter: what a new link replaces is `lost` before the new one is `linked`.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from tidemill.peer.hello import Hello

Buffer = bytes | bytearray | memoryview


class Link(Protocol):
    """One authenticated connection to another broker's process."""

    @property
    def hello(self) -> Hello:
        """The other end's."""
        ...

    def send(self, parts: Sequence[Buffer]) -> bool:
        """One frame, uncopied: the parts must not change afterwards.

        False: the link is closed, or its queue is full.  Then the frame is dropped; whoever sent it asks again.
        """
        ...

    def close(self, why: str) -> None:
        """The other end is told why.  The owner hears `lost` before this returns; closing again does nothing."""
        ...


class Links(Protocol):
    """All of them."""

    @property
    def last_failure(self) -> str | None:
        """Why what was tried last became no link; None while nothing has failed."""
        ...

    def reach(self, addresses: Collection[str]) -> None:
        """host:port of everybody a link is wanted to.

        Dialled until it stands, with jittered back-off (50 ms … 1 s), and again when it is lost.  Replaces what was
        asked before; links to others stay until somebody closes them.
        """
        ...

    async def listen(self) -> str:
        """Take links from others, too; host:port as they reach it.  A broker that only asks to join does not."""
        ...

    def close(self) -> None:
        """End every link, and make none any more."""
        ...


class LinkOwner(Protocol):
    """The broker's side.  An error that it raises closes that link and is reported; it ends nothing else."""

    def hello(self) -> Hello:
        """Ours, as it is now."""
        ...

    def linked(self, link: Link) -> str | None:
        """A link stands: it may be sent to at once.  A sentence refuses it; then it is closed, and never `lost`."""
        ...

    def received(self, link: Link, frame: memoryview) -> None:
        """One frame (`peer/frame.sections`), whose writable memory is the owner's to keep."""
        ...

    def lost(self, link: Link, why: str) -> None:
        """Once for each link that was not refused, whoever ended it."""
        ...
