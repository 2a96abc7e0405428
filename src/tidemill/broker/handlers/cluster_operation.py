"""
ClusterOperation (key 10021): v0

An operator's command: drain, replace or remove a broker, or move a shard.  Every broker forwards the request to the
controller.  Not listed in ApiVersions; the messages are in `peer/cluster_operation`.
"""

from typing import Final, assert_never

from tidemill.broker.controller.operator_commands import Answer
from tidemill.broker.request.awaited_transfer import awaited_transfer
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.request.told_voters import when_told
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain
from tidemill.model.shard import ShardId
from tidemill.peer.cluster_operation import NO_ID, Operation, Request, Response
from tidemill.shard.pending import Pending

SINCE_LEVEL: Final = ELASTIC_CLUSTER
WHY: Final = "no controller has answered; look whether the command took effect, and try again"
OLDER: Final = "the controller runs a version of Tidemill that moves no replicas: upgrade all brokers first"


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    try:
        operation = Operation(request.operation)
    except ValueError:
        why = f"operation {request.operation} is unknown to this version of Tidemill; upgrade it on all brokers"
        return Response(error_code=errors.UNSUPPORTED_VERSION, error_message=why)
    pending: Pending[Response] = Pending()
    answer = _begin(operation, request, context)
    answer.then(lambda answer: pending.complete(_response(answer)), pending.fail)
    return pending


def refused(_: Request, error_code: int) -> Response:
    """Return a response to a request that no controller has answered."""
    return Response(error_code=error_code, error_message=OLDER if error_code == errors.UNSUPPORTED_VERSION else WHY)


def _begin(operation: Operation, request: Request, context: RequestContext) -> Pending[Answer]:
    commands = context.broker.operator_commands
    broker_id, shard_id = BrokerId(request.broker_id), ShardId(request.shard_id)
    brokers = [BrokerId(named) for named in request.brokers]
    match operation:
        case Operation.DRAIN_LEADERS:
            return commands.drain(broker_id, Drain.LEADERS, is_trial=request.is_trial)
        case Operation.DRAIN_ALL:
            return commands.drain(broker_id, Drain.ALL, is_forced=request.is_forced, is_trial=request.is_trial)
        case Operation.UNDRAIN:
            return commands.drain(broker_id, Drain.NONE, is_trial=request.is_trial)
        case Operation.REPLACE:
            return commands.replace(brokers, is_trial=request.is_trial)
        case Operation.MAY_STOP:
            return commands.may_stop(broker_id)
        case Operation.MOVE:
            return commands.move(shard_id, brokers)
        case Operation.CANCEL:
            return _cancelled(context, shard_id)
        case Operation.TRANSFER:
            return awaited_transfer(context.broker, shard_id, broker_id)
        case Operation.REMOVE:
            return commands.remove(broker_id)
        case _:
            assert_never(operation)


def _cancelled(context: RequestContext, shard_id: ShardId) -> Pending[Answer]:
    broker, pending = context.broker, Pending[Answer]()

    def told() -> None:
        broker.operator_commands.cancel(shard_id).then(pending.complete, pending.fail)

    when_told(broker, [shard_id], told, also_leaderless=True)
    return pending


def _response(answer: Answer) -> Response:
    findings = [
        Response.Finding(
            kind=it.kind,
            shard_id=NO_ID if it.shard_id is None else it.shard_id,
            broker_id=NO_ID if it.broker_id is None else it.broker_id,
            sentence=it.sentence,
        )
        for it in answer.findings
    ]
    if answer.problem is None:
        return Response(findings=findings)
    return Response(error_code=answer.problem.error_code, error_message=answer.problem.message, findings=findings)
