"""The context of a request: the broker, the connection, the client and the time."""

from collections.abc import Collection, Hashable
from typing import Protocol

from tidemill.broker.broker import Broker
from tidemill.broker.clients.pipelines import Pipelines


class Caller(Hashable, Protocol):
    """The part of a request's connection that handlers use."""

    @property
    def listener(self) -> str:
        """The name of the connection's listener."""
        ...

    @property
    def offered(self) -> Collection[int]:
        """The API keys that this listener offers."""
        ...

    @property
    def pipelines(self) -> Pipelines: ...

    @property
    def peer(self) -> tuple[str, int]: ...

    def hold(self) -> None:
        """Start no further request on this connection until `release` is called."""
        ...

    def release(self) -> None:
        """Allow requests on this connection to be started again, but only in a later turn of the event loop."""
        ...

    def close(self) -> None:
        """Close the connection once the responses that are ready have been sent."""
        ...


class RequestContext:
    """The context of one request.  `now_ms` is wall-clock time."""

    __slots__ = ("broker", "client_id", "connection", "now_ms", "version")

    def __init__(self, broker: Broker, connection: Caller, version: int, client_id: str | None, now_ms: int) -> None:
        self.broker = broker
        self.connection = connection
        self.version = version
        self.client_id = client_id
        self.now_ms = now_ms
