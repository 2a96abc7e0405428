"""An answer that is not there yet."""

from collections.abc import Callable
from typing import Any


class Pending:
    """
    What a handler returns when its response comes later: `complete` is called once, on the loop, and hands the
    response to whoever asked by `then`.
    """

    __slots__ = ("_response", "_then", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._response: Any = None
        self._then: Callable[[Any], None] | None = None

    def complete(self, response: Any) -> None:
        if self.is_done:
            return
        self.is_done = True
        self._response = response
        if self._then is not None:
            self._then(response)

    def then(self, callback: Callable[[Any], None]) -> None:
        """Called with the response, now if it is there."""
        self._then = callback
        if self.is_done:
            callback(self._response)
