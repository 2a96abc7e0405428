"""What a handler knows besides its request: who asks, where, when, and the broker."""

from collections.abc import Collection
from typing import Protocol

from tidemill.broker.broker import Broker
from tidemill.broker.connection.pipelines import Pipelines


class Caller(Protocol):
    """The connection that a request came through, as far as handlers care."""

    @property
    def listener(self) -> str:
        """The name of the listener it came to."""
        ...

    @property
    def offered(self) -> Collection[int]:
        """The API keys that are answered here."""
        ...

    @property
    def pipelines(self) -> Pipelines: ...

    @property
    def peer(self) -> tuple[str, int]: ...

    def close(self) -> None:
        """After what has been answered."""
        ...


class RequestContext:
    """One per request.  `now_ms` is wall clock."""

    __slots__ = ("broker", "client_id", "connection", "now_ms", "version")

    def __init__(self, broker: Broker, connection: Caller, version: int, client_id: str | None, now_ms: int) -> None:
        self.broker = broker
        self.connection = connection
        self.version = version
        self.client_id = client_id
        self.now_ms = now_ms
