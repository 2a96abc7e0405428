"""Forwarding: any broker accepts a client's request for the controller and forwards it, as KRaft's brokers do.

    handler ─▶ ControllerClient ─▶ the controller's response ─▶ client

The error is NOT_CONTROLLER if no controller is found within `WAIT_MS`, UNSUPPORTED_VERSION if the controller is of a
version that does not know the request, and REQUEST_TIMED_OUT if the connection to the controller is lost before the
controller has answered, because the outcome is then unknown.
"""

from collections.abc import Callable
from typing import Any, Final

from tidemill.broker.peers.unanswered import Unanswered, error_code_of
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.feature_levels import OLDEST
from tidemill.shard.pending import Pending
from tidemill.wire.schema import Api, Message

WAIT_MS: Final = 5_000  # how long a request waits for a controller; an election takes a second or two

Handler = Callable[[Any, RequestContext], object]


def forwarded(
    api: Api,
    handle: Handler,
    refused: Callable[[Any, int], Message],
    *,
    wait_ms: int = WAIT_MS,
    since_level: int = OLDEST,
) -> Handler:
    """
    Return a handler that runs `handle` on the controller, which may be this broker or another one.  `refused` returns
    the response that rejects an entire request with an error code: UNSUPPORTED_VERSION if the controller's version
    supports only lower feature levels than `since_level`, that of the first version that knows the request.
    """

    def forward(request: Any, context: RequestContext) -> Pending[Message]:
        pending: Pending[Message] = Pending()

        def answered(outcome: Any) -> None:
            if isinstance(outcome, Unanswered):
                pending.complete(refused(request, error_code_of(outcome)))
            else:
                pending.complete(outcome)

        client = context.broker.controller_client
        asked = client.ask(
            api,
            request,
            version=context.version,
            here=lambda: handle(request, context),
            wait_ms=wait_ms,
            since_level=since_level,
        )
        asked.then(answered, pending.fail)
        return pending

    return forward
