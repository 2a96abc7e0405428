"""What only the controller decides.  Any broker takes such a request, as KRaft's do: it is answered here when the
controller is here, and otherwise asked of it over the link to its broker.

    handler ─▶ here ─▶ the controller's answer
        ├────▶ link ─▶ the same handler there ─▶ its response ─▶ link ─▶ the client
        └────▶ nobody knows where it is: again, when somebody does

Refused with NOT_CONTROLLER when there is none for a while; with REQUEST_TIMED_OUT when it is gone before it has
answered: then the outcome is not known.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from tidemill.broker.connection.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.schema import Api, Message

WAIT_MS: Final = 5_000  # for a controller: an election takes a second or two
AGAIN_S: Final = 0.2

Handler = Callable[[Any, RequestContext], object]


class ControllerModule(Protocol):
    """The file of an API that the controller answers."""

    @property
    def handle(self) -> Handler: ...

    def refused(self, request: Any, error_code: int) -> Message:
        """All of it, for one reason."""
        ...


class _Asked(Pending[Message]):
    __slots__ = ("_api", "_context", "_module", "_request", "_timer", "_until_ms")

    def __init__(self, api: Api, module: ControllerModule, request: Any, context: RequestContext) -> None:
        super().__init__()
        self._api = api
        self._module = module
        self._request = request
        self._context = context
        self._timer: Any = None
        self._until_ms = context.broker.clock.monotonic_ms() + WAIT_MS

    def ask(self) -> None:
        broker = self._context.broker
        if not broker.controller.accepts_writes:
            broker.cluster.controller_client.ask(self._api, self._context.version, self._request, self._answered)
            return
        outcome: Any = self._module.handle(self._request, self._context)
        if isinstance(outcome, Pending):
            outcome.then(self.complete, self.fail)
        else:
            self.complete(outcome)

    def _answered(self, response: Message | int) -> None:
        broker = self._context.broker
        if response == errors.NOT_CONTROLLER and broker.clock.monotonic_ms() < self._until_ms:
            self._timer = broker.machine.call_later(AGAIN_S, self._again)
            broker.cluster.watchers[self._changed] = None
        else:
            self.complete(self._module.refused(self._request, response) if isinstance(response, int) else response)

    def _changed(self) -> None:
        """Who leads what, or the image: perhaps the controller.  Not at once: this may be the middle of that change."""
        self._context.broker.cluster.watchers.pop(self._changed, None)
        self._context.broker.machine.turns.call_soon(self._again)

    def _again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._context.broker.cluster.watchers.pop(self._changed, None)
            self.ask()


def ask_controller(api: Api, module: ControllerModule) -> Handler:
    """The handler that finds the controller first."""

    def handle_or_ask(request: Any, context: RequestContext) -> object:
        if context.broker.controller.accepts_writes:
            return module.handle(request, context)
        asked = _Asked(api, module, request, context)
        asked.ask()
        return asked

    return handle_or_ask
