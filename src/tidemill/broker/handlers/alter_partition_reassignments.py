"""
AlterPartitionReassignments (key 45): v0-1

Plans replicas on the brokers that a user names, or cancels such moves.  Every broker forwards the request to the
controller.  The response is sent when the plan is committed; the shards' leaders carry it out.

Partitions of one shard move together (`metadata/partition_reassignments`).

v1  allow_replication_factor_change (KIP-860)
"""

from collections.abc import Mapping
from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.request.request_context import RequestContext
from tidemill.broker.request.told_voters import when_told
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.partition_reassignments import Partition, Reassignments, reassignments
from tidemill.metadata.reassignments import PlanMoves, PlannedMoves
from tidemill.metadata.result import Problem
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending
from tidemill.wire.messages.alter_partition_reassignments import Request, Response

SINCE_LEVEL: Final = ELASTIC_CLUSTER


def handle(request: Request, context: RequestContext) -> Pending[Response]:
    broker = context.broker
    pending: Pending[Response] = Pending()

    def told() -> None:
        if not broker.controller.accepts_writes:
            pending.complete(refused(request, errors.NOT_CONTROLLER))
        else:
            _plan(request, broker).then(pending.complete, pending.fail)

    when_told(broker, _cancelled(request, broker.image), told, also_leaderless=True)
    return pending


def _cancelled(request: Request, image: ClusterImage) -> set[ShardId]:
    """Return the shards of the moves that are to be cancelled."""
    topics = ((image.topic(it.name), it.partitions) for it in request.topics)
    shard_ids = (
        topic.shard_of(it.partition_index)
        for topic, partitions in topics
        if topic is not None
        for it in partitions
        if it.replicas is None
    )
    return {it for it in shard_ids if it is not None}


def _plan(request: Request, broker: Broker) -> Pending[Response]:
    wanted = [
        (topic.name, it.partition_index, None if it.replicas is None else tuple(map(BrokerId, it.replicas)))
        for topic in request.topics
        for it in topic.partitions
    ]
    decided = reassignments(
        broker.image,
        wanted,
        broker.reported_load.voters,
        may_change_factor=request.allow_replication_factor_change,
    )
    for move in [*decided.moves]:
        full = broker.operator_commands.disk_problem(broker.image.shards[move.shard_id], move.brokers)
        if full is not None:
            decided.refuse(move.shard_id, full)
    pending: Pending[Response] = Pending()
    if not decided.moves:
        pending.complete(_response(request, decided.problems))
        return pending

    def planned(outcome: PlannedMoves | OutcomeUnknown) -> None:
        if outcome is OUTCOME_UNKNOWN:
            pending.complete(refused(request, errors.REQUEST_TIMED_OUT))
        else:
            pending.complete(_response(request, _with_refusals(decided, outcome)))

    broker.controller.submit(PlanMoves(moves=tuple(decided.moves))).then(planned)
    return pending


def _with_refusals(decided: Reassignments, outcome: PlannedMoves) -> Mapping[Partition, Problem]:
    for move, problem in zip([*decided.moves], outcome.problems, strict=True):
        if problem is not None:
            decided.refuse(move.shard_id, problem)
    return decided.problems


def _response(request: Request, problems: Mapping[Partition, Problem]) -> Response:
    def outcome(name: str, number: int) -> Response.Topic.Partition:
        problem = problems.get((name, number))
        code, why = (errors.NONE, None) if problem is None else problem
        return Response.Topic.Partition(partition_index=number, error_code=code, error_message=why)

    return Response(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=errors.NONE,
        responses=[
            Response.Topic(name=it.name, partitions=[outcome(it.name, each.partition_index) for each in it.partitions])
            for it in request.topics
        ],
    )


def refused(request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    is_older = error_code == errors.UNSUPPORTED_VERSION
    why = "the controller runs a version of Tidemill that moves no replicas: upgrade all brokers first"
    return Response(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error_code,
        error_message=why if is_older else None,
        responses=[],
    )
