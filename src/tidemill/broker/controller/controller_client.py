"""ControllerClient: the one way to ask the controller, on this broker or on another one.

ask ─┬─▶ the controller is here: its handler ─▶ response
     ├─▶ elsewhere: link ─▶ the same handler there ─▶ link ─▶ response
     └─▶ not known, or it has just moved: NO_CONTROLLER, or another try until a deadline
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.model import errors
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.schema import Api, Message

RETRY_S: Final = 0.2  # between two tries, unless a change of leaders or of the image comes first


class NoController(Enum):
    """The type of NO_CONTROLLER: no controller has looked at the request, so it has had no effect."""

    NO_CONTROLLER = "no controller"


NO_CONTROLLER: Final = NoController.NO_CONTROLLER
Unanswered = NoController | OutcomeUnknown


def error_code_of(outcome: Unanswered) -> int:
    """Return the Kafka error code: NOT_CONTROLLER, or REQUEST_TIMED_OUT when the request may have taken effect."""
    return errors.NOT_CONTROLLER if outcome is NO_CONTROLLER else errors.REQUEST_TIMED_OUT


class ControllerClient:
    def __init__(self, machine: Machine, controller: ControllerHost, cluster: Cluster) -> None:
        # Handles a request here, as (API, version, request); assigned before the first request.
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
    ) -> Pending[Any]:
        """
        Return the controller's response, or why there is none: NO_CONTROLLER or OUTCOME_UNKNOWN.

        `here` handles the request when the controller is on this broker, in place of the handler that other brokers'
        requests get.  While there is no controller, the request is tried again until `wait_ms` have passed.
        """
        if here is None:
            return _Attempts(self, api, version, request, lambda: self.handle(api, version, request), wait_ms)
        return _Attempts(self, api, version, request, here, wait_ms)


class _Attempts(Pending[Any]):
    """One request, until it is answered or its time is over."""

    __slots__ = ("_api", "_client", "_here", "_request", "_timer", "_until_ms", "_version")

    def __init__(
        self,
        client: ControllerClient,
        api: Api,
        version: int,
        request: Message,
        here: Callable[[], object],
        wait_ms: int,
    ) -> None:
        super().__init__()
        self._client = client
        self._api = api
        self._version = version
        self._request = request
        self._here = here
        self._timer: Any = None  # while another attempt is scheduled
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
        api, version = self._api, self._version

        def received(frame: memoryview | None) -> None:
            if frame is None:
                self.complete(OUTCOME_UNKNOWN)
            elif not frame:
                self._retry()
            else:
                self.complete(api.decode_response(version, frame, api.response_body_at(version, frame)))

        cluster = self._client.cluster
        controller = cluster.controller()
        parts = api.encode_request(version, self._request, 0)
        if controller is None or not cluster.peers.ask(controller, parts, received):
            self._retry()

    def _retry(self) -> None:
        machine = self._client.machine
        if machine.clock.monotonic_ms() >= self._until_ms:
            self.complete(NO_CONTROLLER)
            return
        self._timer = machine.call_later(RETRY_S, self._attempt_again)
        self._client.cluster.watchers[self._changed] = None

    def _changed(self) -> None:
        """A leader or the image has changed.  Try in the next turn, because that change may still be in progress."""
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
