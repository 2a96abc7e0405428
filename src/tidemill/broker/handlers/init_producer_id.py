"""InitProducerId (key 22): v0-5

Gives an idempotent producer a new producer id, or the next epoch of the id in the request (KIP-360).  Transactions are
not implemented: a transactional id is refused with an error that clients do not retry.  If the controller cannot be
reached or does not allocate producer ids, the error is COORDINATOR_LOAD_IN_PROGRESS, as in Kafka: after other errors,
some clients give up, or look for a coordinator, which an idempotent producer does not have.

v3  producer_id and producer_epoch in the request
"""

from typing import Final

from tidemill.broker.peers.unanswered import Unanswered
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.shard.pending import Pending
from tidemill.wire.messages.init_producer_id import Request, Response

EPOCH_MAX: Final = (1 << 15) - 1
NONE: Final = -1


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    if request.transactional_id is not None:
        return _refused(errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return _refused(errors.INVALID_REQUEST)
    if request.producer_id != NONE and request.producer_epoch < EPOCH_MAX - 1:
        return Response(
            error_code=errors.NONE, producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1
        )
    pending: Pending[Response] = Pending()

    def taken(outcome: int | Unanswered) -> None:
        if isinstance(outcome, int):
            pending.complete(Response(error_code=errors.NONE, producer_id=outcome, producer_epoch=0))
        else:
            pending.complete(_refused(errors.COORDINATOR_LOAD_IN_PROGRESS))

    context.broker.producer_ids.take(taken)
    return pending


def _refused(error_code: int) -> Response:
    return Response(error_code=error_code, producer_id=NONE, producer_epoch=NONE)
