"""
UnregisterBroker (key 64): v0

Removes a broker from the cluster that is down for good and carries nothing.  Every broker forwards the request to the
controller, which refuses a broker that is live, or on which replicas are planned or still members.
"""

from typing import Final

from tidemill.broker.controller.operator_commands import Answer
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.shard.pending import Pending
from tidemill.wire.messages.unregister_broker import Request, Response

SINCE_LEVEL: Final = ELASTIC_CLUSTER


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    pending: Pending[Response] = Pending()

    def decided(answer: Answer) -> None:
        problem = answer.problem
        if problem is None:
            pending.complete(Response(error_code=errors.NONE))
        elif problem.error_code == errors.NOT_CONTROLLER:  # it is handing over: Kafka's clients repeat this error only
            pending.complete(Response(error_code=errors.REQUEST_TIMED_OUT, error_message=problem.message))
        else:
            pending.complete(Response(error_code=problem.error_code, error_message=problem.message))

    context.broker.operator_commands.remove(BrokerId(request.broker_id)).then(decided, pending.fail)
    return pending


def refused(_: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    is_older = error_code == errors.UNSUPPORTED_VERSION
    why = "the controller runs a version of Tidemill that removes no brokers: upgrade all brokers first"
    return Response(error_code=error_code, error_message=why if is_older else None)
