"""Pending: a value that arrives later.  OUTCOME_UNKNOWN: the value if a change may or may not take effect."""

from collections.abc import Callable
from enum import Enum
from typing import ClassVar, Final, Generic, TypeVar, cast

T = TypeVar("T")


class OutcomeUnknown(Enum):
    """
    The type of OUTCOME_UNKNOWN: a change was appended or sent, but leadership or the connection was lost before it was
    known to be committed.  The change may or may not take effect.  The type is an enum, so that type checkers narrow a
    union on `is OUTCOME_UNKNOWN`.
    """

    OUTCOME_UNKNOWN = "outcome unknown"


OUTCOME_UNKNOWN: Final = OutcomeUnknown.OUTCOME_UNKNOWN


class Pending(Generic[T]):
    """
    A value that arrives later, such as the response that a handler cannot return yet.

    `complete` is called on the event loop, and passes the value to the callback given to `then`.  `fail` is called
    instead if a bug in the broker prevents the value from being computed; the error is then in `failure`.
    """

    __slots__ = ("_failed", "_then", "_value", "failure", "is_done")

    keeps_request: ClassVar[bool] = False  # whether the request's bytes stay in memory until this is done

    def __init__(self) -> None:
        self.is_done = False
        self.failure: BaseException | None = None
        self._value: T | None = None  # the value, until it is passed to a callback
        self._then: Callable[[T], None] | None = None
        self._failed: Callable[[BaseException], None] | None = None

    def complete(self, value: T) -> None:
        """Pass `value` to the callback, now or as soon as one is given.  Does nothing if `is_done`."""
        if self.is_done:
            return
        self.is_done = True
        then = self._then
        self._then = self._failed = None  # a callback may refer to this object: the cycle would keep the value alive
        if then is None:
            self._value = value
        else:
            then(value)

    def fail(self, error: BaseException) -> None:
        """Report that a bug in the broker prevents the value from being computed.  Does nothing if `is_done`."""
        if self.is_done:
            return
        self.is_done = True
        self.failure = error
        then, failed = self._then, self._failed
        self._then = self._failed = None
        if failed is not None:
            failed(error)
        elif then is not None:
            raise error

    def cancel(self) -> None:
        """
        Report that the client has disconnected, so that the value is no longer needed.  A subclass that is only waiting
        stops waiting; work that has begun continues.
        """

    def then(self, callback: Callable[[T], None], failed: Callable[[BaseException], None] | None = None) -> None:
        """
        Call `callback` with the value, immediately if it has arrived; or `failed` with the error given to `fail`.
        Without `failed` the error is raised, by `fail` or by this call.
        """
        if not self.is_done:
            self._then, self._failed = callback, failed
            return
        if self.failure is not None:
            if failed is None:
                raise self.failure
            failed(self.failure)
            return
        value, self._value = self._value, None
        callback(cast("T", value))
