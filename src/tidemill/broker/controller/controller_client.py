"""ControllerClient: sends requests to the controller, which may be this broker or another one.

ask ─┬─▶ on this broker: its handler ─▶ response
     ├─▶ on another broker: link ─▶ the same handler on that broker ─▶ link ─▶ response
     └─▶ unknown, or has just changed: retry until a deadline, then NO_CONTROLLER
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.peers.unanswered import NO_CONTROLLER, OLDER_CONTROLLER
from tidemill.metadata.feature_levels import OLDEST
from tidemill.shard.pending import Pending
from tidemill.wire.schema import Api, Message

RETRY_S: Final = 0.2  # pause between attempts, which a change of a leader or of the cluster image ends early


class ControllerClient:
    def __init__(self, machine: Machine, controller: ControllerHost, cluster: Cluster) -> None:
        # The callback that handles a request on this broker, with arguments (API, version, request).  Assigned before
        # the first request.
        self.handle: Callable[[Api, int, Any], object] = _not_wired
        self.machine: Final = machine
        self.controller: Final = controller
        self.cluster: Final = cluster

    def ask(
        self,
        api: Api,
        request: Message,
        *,
        version: int = 0,
        here: Callable[[], object] | None = None,
        wait_ms: int = 0,
        since_level: int = OLDEST,
    ) -> Pending[Any]:
        """
        Return the controller's response, or NO_CONTROLLER, OLDER_CONTROLLER or OUTCOME_UNKNOWN if there is none.

        If this broker is the controller, `here` handles the request; if `here` is None, the handler for requests from
        other brokers does.  While there is no controller, the request is retried until `wait_ms` have passed.  A
        controller that supports only lower feature levels than `since_level`, that of the first version of Tidemill
        that knows the request, does not get it.
        """
        if here is None:
            here = partial(self.handle, api, version, request)
        return _Attempts(self, api, version, request, here, wait_ms, since_level)


class _Attempts(Pending[Any]):
    """One request, which is attempted until there is a response or the deadline has passed."""

    __slots__ = ("_api", "_client", "_here", "_request", "_since_level", "_timer", "_until_ms", "_version")

    def __init__(
        self,
        client: ControllerClient,
        api: Api,
        version: int,
        request: Message,
        here: Callable[[], object],
        wait_ms: int,
        since_level: int,
    ) -> None:
        super().__init__()
        self._client = client
        self._api = api
        self._version = version
        self._request = request
        self._here = here
        self._since_level = since_level
        self._timer: Any = None  # timer for the next attempt, if one is scheduled
        self._until_ms = client.machine.clock.monotonic_ms() + wait_ms
        self._attempt()

    def _attempt(self) -> None:
        if not self._client.controller.accepts_writes:
            self._ask_other()
            return
        try:
            outcome = self._here()
        except Exception as error:
            self.fail(error)
            return
        if isinstance(outcome, Pending):
            outcome.then(self.complete, self.fail)
        else:
            self.complete(outcome)

    def _ask_other(self) -> None:
        def answered(outcome: Any) -> None:
            if outcome is NO_CONTROLLER:
                self._retry()
            else:
                self.complete(outcome)

        cluster = self._client.cluster
        controller = cluster.controller()
        if controller is None:
            self._retry()
        elif cluster.is_alive(controller) and cluster.peers.level(controller) < self._since_level:
            self.complete(OLDER_CONTROLLER)
        elif not cluster.peers.ask(controller, self._api, self._request, answered, version=self._version):
            self._retry()

    def _retry(self) -> None:
        machine = self._client.machine
        if machine.clock.monotonic_ms() >= self._until_ms:
            self.complete(NO_CONTROLLER)
            return
        self._timer = machine.call_later(RETRY_S, self._attempt_again)
        self._client.cluster.watchers[self._changed] = None

    def _changed(self) -> None:
        """
        Schedule another attempt to send the request, because a leader or the image has changed.  The attempt is made in
        the next turn of the event loop, when the change is complete.
        """
        self._client.cluster.watchers.pop(self._changed, None)
        self._client.machine.turns.call_soon(self._attempt_again)

    def _attempt_again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._client.cluster.watchers.pop(self._changed, None)
            self._attempt()


def _not_wired(_api: Api, _version: int, _request: Any) -> object:
    raise AssertionError("the broker's wiring assigns the handlers")
