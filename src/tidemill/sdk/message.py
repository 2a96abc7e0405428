"""Messages that a queue has delivered, for asyncio and for threads."""

import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from tidemill.sdk.durations import Duration, milliseconds
from tidemill.sdk.json_text import bytes_of, headers_of, time_of
from tidemill.sdk.leases import Decision, Lease, Leases


class Call(Protocol):
    """Runs a coroutine in the event loop of the client, from another thread, and returns its result."""

    def __call__(self, work: Coroutine[Any, Any, None], /) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """
    A record, as a queue delivers it.

    `attempt` is 1 for the first delivery.  `headers` may repeat a name.
    """

    topic: str
    partition: int
    offset: int
    attempt: int
    timestamp: datetime | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    _lease: Lease = field(repr=False, compare=False)
    _leases: Leases = field(repr=False, compare=False)

    def text(self) -> str:
        """Return the value as text.  Raise UnicodeDecodeError if it is not UTF-8."""
        return (self.value or b"").decode()

    def json(self) -> Any:
        """Return the value, decoded from JSON.  Raise ValueError if it is not JSON."""
        return json.loads(self.value or b"null")

    def header(self, name: str) -> bytes | None:
        """Return the last header of a name, or None."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    @property
    def lease(self) -> Lease:
        """The lease, for the queue that has received the message."""
        return self._lease

    @property
    def is_finished(self) -> bool:
        """Whether the message has been acknowledged, released or rejected, or its lease is lost."""
        return not self._lease.is_open

    @property
    def is_lost(self) -> bool:
        """Whether the lease has ended, although it was renewed: another consumer may have the message."""
        return self._lease.is_lost

    async def decide(self, decision: Decision, delay: Duration | None = None) -> None:
        """Finish or release the message, in the event loop of the client."""
        delay_ms = None if delay is None else milliseconds("delay", delay)
        await self._leases.decide(self._lease, decision, delay_ms)

    def abandon(self) -> None:
        """Renew the lease no more: the message is delivered again when it ends.  Call this in the event loop."""
        self._leases.abandon(self._lease)


class AsyncMessage(Delivered):
    """A message of an `AsyncQueue`.  Its lease is renewed until it is finished."""

    async def ack(self) -> None:
        """
        Finish the message.

        Raise LeaseExpired if it was delivered again in the meantime; BrokersUnavailable if no broker has answered.
        """
        await self.decide("ack")

    async def nack(self, delay: Duration | None = None) -> None:
        """Release the message for another delivery, after `delay`, or after the back-off of the group."""
        await self.decide("nack", delay)

    async def reject(self) -> None:
        """Finish the message as one that cannot be processed: it becomes a dead letter where the group has them."""
        await self.decide("reject")


class Message(Delivered):
    """A message of a `Queue`, and of a worker's handler.  Its lease is renewed until it is finished."""

    def __init__(self, message: Delivered, call: Call) -> None:
        for name, value in vars(message).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_call", call)

    def ack(self) -> None:
        """
        Finish the message.

        Raise LeaseExpired if it was delivered again in the meantime; BrokersUnavailable if no broker has answered.
        """
        self._run(self.decide("ack"))

    def nack(self, delay: Duration | None = None) -> None:
        """Release the message for another delivery, after `delay`, or after the back-off of the group."""
        self._run(self.decide("nack", delay))

    def reject(self) -> None:
        """Finish the message as one that cannot be processed: it becomes a dead letter where the group has them."""
        self._run(self.decide("reject"))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        call: Call = vars(self)["_call"]
        call(work)


def message_of(topic: str, found: Mapping[str, Any], leases: Leases) -> AsyncMessage:
    """Return a message of the response to a receive request."""
    return AsyncMessage(
        topic=topic,
        partition=found["partition"],
        offset=found["offset"],
        attempt=found["attempt"],
        timestamp=time_of(found["timestamp"]),
        key=bytes_of(found["key"]),
        value=bytes_of(found["value"]),
        headers=headers_of(found["headers"]),
        _lease=leases.add(found["receipt"], found["lease_ms"]),
        _leases=leases,
    )
