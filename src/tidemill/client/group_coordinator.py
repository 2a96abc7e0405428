"""Sends requests to the coordinator of a group, wherever it moves."""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import Endpoint
from tidemill.client.failures import BrokerUnreachable, ClientError
from tidemill.model import errors
from tidemill.wire.messages import find_coordinator
from tidemill.wire.schema import Api, Message

_FIND_ONE_GROUP: Final = 3  # later versions of FindCoordinator take a list of keys

_COORDINATOR_MOVED: Final = frozenset(
    {
        errors.COORDINATOR_LOAD_IN_PROGRESS,
        errors.COORDINATOR_NOT_AVAILABLE,
        errors.NOT_COORDINATOR,
        errors.REQUEST_TIMED_OUT,
        errors.NETWORK_EXCEPTION,
        errors.UNSTABLE_OFFSET_COMMIT,  # a pending transaction contains these offsets
    }
)


class CoordinatorMoved(ClientError):
    """The group's coordinator is starting or has moved.  The request is sent again after a pause."""


class Coordinator(NamedTuple):
    broker_id: int
    endpoint: Endpoint


class GroupCoordinator:
    """Asks the coordinator of one group over the connections of `cluster`.  Not thread-safe."""

    def __init__(self, cluster: ClusterMetadata, group: str, *, deadline_ms: int | None = None) -> None:
        """`deadline_ms` limits how long one call may retry, by default `default.api.timeout.ms`."""
        self._cluster = cluster
        self._group = group
        self._deadline_ms = deadline_ms
        self._known: Coordinator | None = None

    def ask(
        self,
        api: Api,
        request: Message,
        problems: Callable[[Any], Iterable[int]],
        *,
        failing: str,
        newest: int | None = None,
    ) -> Any:
        """
        Send a request, and send it again after the coordinator has moved.  Return the response, which may contain other
        errors.

        `problems` returns the error codes of a response.  `failing` is the predicate of the error message.  Raise
        RetriesExhausted, or ClientError if there is no coordinator.
        """
        back_off = self._cluster.back_off(self._deadline_ms)
        while True:
            failure: ClientError
            try:
                connection = self._cluster.connection_at(self.find().endpoint)
                response = connection.request(api, request, version=connection.version_of(api, newest=newest))
                moved = [code for code in problems(response) if code in _COORDINATOR_MOVED]
                if not moved:
                    return response
                failure = CoordinatorMoved(f"group {self._group!r} {failing}: {errors.name(moved[0])}")
            except (BrokerUnreachable, CoordinatorMoved) as error:
                failure = error
            self._known = None
            back_off.pause(failure)

    def find(self) -> Coordinator:
        """Return the coordinator.  Raise CoordinatorMoved if there is none now, and ClientError otherwise."""
        if self._known is None:
            response = self._cluster.ask_any(self._ask_for_coordinator)
            if response.error_code != errors.NONE:
                kind = CoordinatorMoved if response.error_code in _COORDINATOR_MOVED else ClientError
                raise kind(f"group {self._group!r} has no coordinator: {errors.name(response.error_code)}")
            self._known = Coordinator(response.node_id, Endpoint(response.host, response.port))
        return self._known

    def _ask_for_coordinator(self, connection: BrokerConnection) -> find_coordinator.Response:
        response: find_coordinator.Response = connection.request(
            find_coordinator.API,
            find_coordinator.Request(key=self._group),
            version=connection.version_of(find_coordinator.API, newest=_FIND_ONE_GROUP),
        )
        return response
