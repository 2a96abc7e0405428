"""An answer that is not there yet."""

from collections.abc import Callable
from typing import Any, ClassVar


class Pending:
    """
    What a handler returns when its response comes later: `complete` is called once, on the loop, and hands the
    response to whoever asked by `then`; `fail` instead says that by our own mistake there will be none.
    """

    __slots__ = ("_response", "_then", "failure", "is_done")

    keeps_request: ClassVar[bool] = False  # the bytes of the request stay in memory until it is done

    def __init__(self) -> None:
        self.is_done = False
        self.failure: BaseException | None = None
        self._response: Any = None
        self._then: Callable[[Any], None] | None = None

    def complete(self, response: Any) -> None:
        if self.is_done:
            return
        self.is_done = True
        then, self._then = self._then, None  # who asked may hold us: a circle would keep the response in memory
        if then is None:
            self._response = response
        else:
            then(response)

    def fail(self, error: BaseException) -> None:
        """Whoever asked gets None, and finds the error in `failure`."""
        if not self.is_done:
            self.failure = error
            self.complete(None)

    def cancel(self) -> None:
        """Nobody waits for the response any more.  What only waits ends here; what was begun goes on."""

    def then(self, callback: Callable[[Any], None]) -> None:
        """Called with the response, now if it is there."""
        if not self.is_done:
            self._then = callback
            return
        response, self._response = self._response, None
        callback(response)
