"""What the requests of `/v1` may take of the broker together: waits, and memory for bodies and responses."""

import asyncio
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from starlette.requests import Request

from tidemill.http.answer import Scope
from tidemill.http.v1.decoded_bodies import DecodedBodies

WAITS_MAX: Final = 512  # streams and long polls: half of the HTTP connections, so that the others remain for work
WAITED_PARTITIONS_MAX: Final = 4_096  # by all of them together, because each partition has a task of its own
BYTES_MAX: Final = 8 << 20  # of bodies; decoded records take several times that
FREE_BYTES: Final = 8 << 10  # of each body are not counted, so that small requests pass while large ones do not
SCARCE_BYTES: Final = 1 << 20  # left of these: a body of JSON may have as many, and would be refused
TURNS_MAX: Final = 32  # requests that decode and write records at a time while there is no memory left for bodies
RECEIVES_MAX: Final = 16  # of queues without a wait, at a time: each may ask the leaders of 64 partitions
RESPONSE_BYTES_MAX: Final = 16 << 20  # of records read, until their clients have taken them; one response may be larger
_KEY: Final = "tidemill.taken"


class Exhausted(ConnectionError):
    """
    There is nothing left now; the message says who has it, and what to do.  A response that has begun breaks off.
    """


@dataclass(slots=True)
class Budgets:
    """What all requests of a broker have taken."""

    waits: int = 0
    partitions: int = 0
    body_bytes: int = 0
    response_bytes: int = 0
    decoded: DecodedBodies = field(default_factory=DecodedBodies, compare=False)
    receives: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(RECEIVES_MAX), compare=False)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TURNS_MAX), compare=False)

    @property
    def is_scarce(self) -> bool:
        """Whether others need the memory that requests hold while they wait for a leader."""
        return self.decoded.is_wanted or self.body_bytes > BYTES_MAX - SCARCE_BYTES


@dataclass(slots=True)
class Taken:
    """What one request has taken; it is given back at the end of the `with` block."""

    budgets: Budgets = field(default_factory=Budgets)
    _waits: int = 0
    _partitions: int = 0
    _body_bytes: int = 0
    _response_bytes: int = 0

    def __enter__(self) -> "Taken":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.budgets.waits -= self._waits
        self.budgets.partitions -= self._partitions
        self.budgets.body_bytes -= self._body_bytes
        self.budgets.response_bytes -= self._response_bytes

    def wait(self, partitions: int = 1) -> None:
        """Take a wait for records of some partitions.  Raise Exhausted if too many requests wait."""
        budgets = self.budgets
        if budgets.waits >= WAITS_MAX or budgets.partitions + partitions > WAITED_PARTITIONS_MAX:
            raise _exhausted(
                f"{budgets.waits} streams and long polls wait for records of {budgets.partitions} partitions already"
            )
        self._waits, self._partitions = self._waits + 1, self._partitions + partitions
        budgets.waits, budgets.partitions = budgets.waits + 1, budgets.partitions + partitions

    def body(self, size: int) -> None:
        """Take memory for the `size` bytes that are held of a body now.  Raise Exhausted if there is none left."""
        added = max(size - FREE_BYTES, 0) - self._body_bytes
        if added > 0 and self.budgets.body_bytes + added > BYTES_MAX:
            raise _exhausted(f"the bodies of other requests have {self.budgets.body_bytes} bytes")
        self._body_bytes += added
        self.budgets.body_bytes += added

    def decoded(self, size: int) -> None:
        """
        Take `size` more bytes of memory for a body that takes much more when it is decoded.  Raise Exhausted if there
        is none left, unless no other request has any.
        """
        others = self.budgets.body_bytes - self._body_bytes
        if others and self.budgets.body_bytes + size > BYTES_MAX:
            raise _exhausted(f"the bodies of other requests have {others} bytes")
        self._body_bytes += size
        self.budgets.body_bytes += size

    def response(self, size: int) -> None:
        """Take memory for `size` more bytes of records, until they are sent.  Raise Exhausted if there is none left."""
        budgets = self.budgets
        if budgets.response_bytes + size > RESPONSE_BYTES_MAX and budgets.response_bytes:
            raise _exhausted(f"the clients of other requests have not taken {budgets.response_bytes} bytes yet")
        self._response_bytes += size
        budgets.response_bytes += size

    def hold(self, size: int) -> None:
        """
        Take memory for a response of `size` bytes, as far as it has not been taken, even if there is none left: what
        the response tells has happened.
        """
        added = max(size - self._response_bytes, 0)
        self._response_bytes += added
        self.budgets.response_bytes += added

    def give_back(self, size: int) -> None:
        """Give back memory of `response`."""
        self._response_bytes -= size
        self.budgets.response_bytes -= size


def begin(scope: Scope, budgets: Budgets) -> Taken:
    """Return what a request takes from now on: nothing yet."""
    taken = scope[_KEY] = Taken(budgets)
    return taken


def taken_by(request: Request) -> Taken:
    """Return what a request has taken."""
    found = request.scope.setdefault(_KEY, Taken())
    assert isinstance(found, Taken)
    return found


def _exhausted(problem: str) -> Exhausted:
    return Exhausted(f"{problem}: try again, or ask another broker")
