"""Decides when an HTTP connection is too slow and must be closed, whether it sends or receives."""

from typing import Final

HEAD_S_MAX: Final = 10.0  # for the head of a request: longer than a slow network needs
SEND_S_MAX: Final = 60.0  # a client that takes no byte of its response for so long has gone
CLOSE_S_MAX: Final = 5.0  # likewise, once nothing else will be sent


class ConnectionPace:
    """The pace of one connection.  All times are those of the event loop's clock, in seconds."""

    def __init__(self, now: float) -> None:
        self.waits_since = now  # for the head of a request, if none is in progress
        self._unsent = 0
        self._unsent_since = now

    def responded(self, now: float) -> None:
        """Note that a response is complete."""
        self.waits_since = now

    def is_stuck(self, now: float, *, unsent: int, is_closing: bool) -> bool:
        """Return whether the client takes nothing of its response, of which `unsent` bytes wait in memory."""
        if unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        return unsent > 0 and now - self._unsent_since > (CLOSE_S_MAX if is_closing else SEND_S_MAX)

    def is_slow(self, now: float, *, is_answering: bool) -> bool:
        """Return whether the client has begun a request, or should have, and has not sent all of its head."""
        return not is_answering and now - self.waits_since > HEAD_S_MAX
