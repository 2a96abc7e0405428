"""What only the controller decides.  Any broker takes such a request, as KRaft's do: it is answered here when the
controller is here, and otherwise asked of it over the link to its broker.

    handler ─▶ here ─▶ the controller's answer
        └────▶ link ─▶ the same handler there ─▶ its response ─▶ link ─▶ the client
"""

from collections.abc import Callable
from typing import Any, Protocol

from tidemill.broker.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.schema import Api, Message

Handler = Callable[[Any, RequestContext], object]


class ControllerModule(Protocol):
    """The file of an API that the controller answers."""

    @property
    def handle(self) -> Handler: ...

    def refused(self, request: Any, error_code: int) -> Message:
        """All of it, for one reason."""
        ...


def at_controller(api: Api, module: ControllerModule) -> Handler:
    """The handler that finds the controller first."""
    handle = module.handle

    def handle_or_ask(request: Any, context: RequestContext) -> object:
        broker = context.broker
        if broker.controller.leads:
            return handle(request, context)
        pending = Pending()

        def answered(response: Message | int) -> None:
            pending.complete(module.refused(request, response) if isinstance(response, int) else response)

        broker.cluster.controller_link.ask(api, context.version, request, answered)
        return pending

    return handle_or_ask


def only_here(module: ControllerModule) -> Handler:
    """The handler that another broker's request comes to: it is not asked on."""

    def handle(request: Any, context: RequestContext) -> object:
        if context.broker.controller.leads:
            return module.handle(request, context)
        return module.refused(request, errors.NOT_CONTROLLER)

    return handle
