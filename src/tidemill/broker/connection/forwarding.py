"""Forwarding: any broker accepts a client's request for the controller and forwards it, as KRaft's brokers do.

    handler ─▶ ControllerClient ─▶ the controller's response ─▶ client

The error is NOT_CONTROLLER if no controller is found within `WAIT_MS`, and REQUEST_TIMED_OUT if the connection to the
controller is lost before it has answered, which means that the outcome is unknown.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from tidemill.broker.peers.unanswered import Unanswered, error_code_of
from tidemill.broker.request.request_context import RequestContext
from tidemill.shard.pending import Pending
from tidemill.wire.schema import Api, Message

WAIT_MS: Final = 5_000  # how long a request waits for a controller; an election takes a second or two

Handler = Callable[[Any, RequestContext], object]


class ControllerModule(Protocol):
    """The module of an API that the controller answers."""

    @property
    def handle(self) -> Handler: ...

    def refused(self, request: Any, error_code: int) -> Message:
        """Return the response that refuses the whole request."""
        ...


def forwarded(api: Api, module: ControllerModule) -> Handler:
    """Return a handler that runs `module.handle` on the controller, which may be this broker or another one."""

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
