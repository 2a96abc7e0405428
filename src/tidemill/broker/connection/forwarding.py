"""Forwarding: any broker accepts a client's request that the controller answers, as KRaft's brokers do.

    handler ─▶ ControllerClient ─▶ the controller's response ─▶ client

The client gets NOT_CONTROLLER when there is no controller for `WAIT_MS`, and REQUEST_TIMED_OUT when contact is lost
before the controller has answered: then the outcome is unknown.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from tidemill.broker.controller.controller_client import Unanswered, error_code_of
from tidemill.broker.request.request_context import RequestContext
from tidemill.shard.pending import Pending
from tidemill.wire.schema import Api, Message

WAIT_MS: Final = 5_000  # for a controller; an election takes a second or two

Handler = Callable[[Any, RequestContext], object]


class ControllerModule(Protocol):
    """The module of an API that the controller answers."""

    @property
    def handle(self) -> Handler: ...

    def refused(self, request: Any, error_code: int) -> Message:
        """Return the response that refuses the whole request."""
        ...


def forwarded(api: Api, module: ControllerModule) -> Handler:
    """Return a handler that has the controller answer, wherever it is."""

    def handle(request: Any, context: RequestContext) -> object:
        if context.broker.controller.accepts_writes:
            return module.handle(request, context)
        pending: Pending[Message] = Pending()

        def answered(outcome: Any) -> None:
            if isinstance(outcome, Unanswered):
                pending.complete(module.refused(request, error_code_of(outcome)))
            else:
                pending.complete(outcome)

        client = context.broker.controller_client
        asked = client.ask(
            api,
            request,
            version=context.version,
            here=lambda: module.handle(request, context),
            wait_ms=WAIT_MS,
        )
        asked.then(answered, pending.fail)
        return pending

    return handle
