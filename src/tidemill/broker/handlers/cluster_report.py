"""
ClusterReport (key 10022): v0

The controller's view of brokers, moves and the last plan.  Every broker forwards the request to the controller.  Not
listed in ApiVersions; the messages are in `peer/cluster_report`.
"""

from typing import Final

from tidemill.broker.controller.rebalance_report import MoveUnderWay, RebalanceReport, ReportedBroker
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.peer.cluster_report import UNKNOWN, Request, Response
from tidemill.rebalance.plan import Plan, Step
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending

SINCE_LEVEL: Final = ELASTIC_CLUSTER
WHY: Final = "no controller has answered; try again"
OLDER: Final = "the controller runs a version of Tidemill that moves no replicas: upgrade all brokers first"
BEGINNING: Final = "the controller is new, and has not looked at all brokers yet; try again in a second"


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    host = context.broker.rebalance
    if not request.is_trial and host.is_beginning:  # without brokers and moves, nothing would be left to wait for
        return Response(error_code=errors.NOT_CONTROLLER, error_message=BEGINNING)
    pending: Pending[Response] = Pending()

    def computed(plan: Plan | OutcomeUnknown | None) -> None:
        if plan is OUTCOME_UNKNOWN:
            pending.complete(refused(request, errors.NOT_CONTROLLER))
        else:
            pending.complete(_response(host.report(plan)))

    (host.plan_anew() if request.is_trial else host.look_again()).then(computed, pending.fail)
    return pending


def refused(_: Request, error_code: int) -> Response:
    """Return a response to a request that no controller has handled."""
    return Response(error_code=error_code, error_message=OLDER if error_code == errors.UNSUPPORTED_VERSION else WHY)


def _response(report: RebalanceReport) -> Response:
    return Response(
        status=report.status.value,
        why=report.why,
        planned_at_ms=UNKNOWN if report.planned_at_ms is None else report.planned_at_ms,
        steps=[_step(step, report.planned_at_ms or UNKNOWN, None) for step in report.steps],
        refusals=[Response.Refusal(what=it.what, sentence=it.sentence) for it in report.refusals],
        recent=[_step(it.step, it.at_ms, it.problem) for it in report.recent],
        notes=[Response.Note(at_ms=it.at_ms, broker_id=it.broker_id, sentence=it.sentence) for it in report.notes],
        brokers=[_broker(broker_id, it) for broker_id, it in sorted(report.brokers.items())],
        moves=[_move(it) for it in report.moves],
        moves_count=report.moves_count,
        untold_count=report.untold_count,
        untold=report.untold,
    )


def _step(step: Step, at_ms: int, problem: str | None) -> Response.Step:
    return Response.Step(
        at_ms=at_ms,
        shard_id=step.shard_id,
        reason=step.reason.name.lower(),
        replicas=broker_ids(step.replicas),
        size=step.size,
        sentence=step.sentence,
        problem=problem,
    )


def _broker(broker_id: BrokerId, reported: ReportedBroker) -> Response.Broker:
    view = reported.view
    return Response.Broker(
        broker_id=broker_id,
        rack=view.rack,
        presence=view.presence.name.lower(),
        drain=view.drain.name.lower(),
        is_live=view.is_live,
        is_ready=view.is_ready,
        heard_by=view.heard_by,
        silent_ms=view.silent_ms,
        live_ms=view.live_ms,
        disk_total=UNKNOWN if view.disk_total is None else view.disk_total,
        disk_used=UNKNOWN if view.disk_used is None else view.disk_used,
        cpu=UNKNOWN if view.cpu is None else view.cpu,
        replicas=reported.replicas,
        leaders=reported.leaders,
        bytes=reported.size,
        not_in_sync=reported.not_in_sync,
        untold=reported.untold,
        leaving=reported.leaving,
    )


def _move(move: MoveUnderWay) -> Response.Move:
    return Response.Move(
        shard_id=move.shard_id,
        reason=move.reason.name.lower(),
        voters=move.voters,
        replicas=move.replicas,
        previous=move.previous,
        size=move.size,
        remaining=move.remaining,
    )
