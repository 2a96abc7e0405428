"""`/v1/rebalance` and `/v1/moves`: what the controller plans for the replicas of the cluster, and why.

Any broker answers; the controller is asked.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tidemill.http.v1.calls import Call, Route
from tidemill.http.v1.kafka_errors import check
from tidemill.http.v1.rights import DESCRIBE_CLUSTER
from tidemill.peer import cluster_report
from tidemill.peer.cluster_report import UNKNOWN

Amount = Annotated[int | None, Meta(description="Bytes; null while it is not known.")]


class RebalanceQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: Annotated[
        bool, Meta(description="Plan now, also if tidemill.rebalance.enable is false; nothing is carried out.")
    ] = False


class BrokerState(msgspec.Struct, frozen=True):
    broker_id: int
    rack: str | None
    presence: Annotated[str, Meta(description="active, silent or gone")]
    drain: Annotated[str, Meta(description="none, leaders or all")]
    is_live: bool
    is_ready: bool
    heard_by: Annotated[int, Meta(description="Live brokers that hear it, the controller included.")]
    silent_ms: int
    live_ms: int
    disk_total: Amount
    disk_used: Amount
    cpu: Annotated[int | None, Meta(description="Thousandths of a core.")]
    replicas: Annotated[int, Meta(description="Planned.")]
    leaders: Annotated[int, Meta(description="Shards whose preferred leader it is.")]
    bytes: Annotated[int, Meta(description="Of its planned replicas, without those in `untold`.")]
    not_in_sync: Annotated[
        int, Meta(description="Planned replicas that lack what is committed; it counts those in `untold`.")
    ]
    untold: Annotated[int, Meta(description="Planned replicas of which no leader has told the controller yet.")]
    leaving: Annotated[
        int, Meta(description="Replicas planned elsewhere, with which it may still vote: they are not copied yet.")
    ]


class Moving(msgspec.Struct, frozen=True):
    """A shard whose voters are on their way to the planned replicas."""

    shard_id: int
    reason: str
    voters: tuple[int, ...]
    replicas: Annotated[tuple[int, ...], Meta(description="Planned, the preferred leader first.")]
    previous: Annotated[tuple[int, ...], Meta(description="To which a cancelled move returns.")]
    size: int
    remaining: Annotated[int, Meta(description="Bytes that the new replicas lack.")]


class PlannedStep(msgspec.Struct, frozen=True):
    at_ms: int | None
    shard_id: int
    reason: str
    replicas: tuple[int, ...]
    size: Annotated[int, Meta(description="Bytes to copy.")]
    sentence: str
    problem: Annotated[str | None, Meta(description="Why the step was dropped.")]


class Note(msgspec.Struct, frozen=True):
    at_ms: int
    broker_id: int
    sentence: str


class Refusal(msgspec.Struct, frozen=True):
    what: str
    sentence: str


class Rebalance(msgspec.Struct, frozen=True):
    status: Annotated[str, Meta(description="idle, working, stalled or off")]
    why: Annotated[str | None, Meta(description="Why it is stalled or off.")]
    planned_at_ms: int | None
    steps: Annotated[tuple[PlannedStep, ...], Meta(description="Of the last plan.")]
    refusals: tuple[Refusal, ...]
    recent: Annotated[tuple[PlannedStep, ...], Meta(description="Steps that were planned, the newest last.")]
    notes: Annotated[tuple[Note, ...], Meta(description="Changes of presence, the newest last.")]
    brokers: tuple[BrokerState, ...]


class Moves(msgspec.Struct, frozen=True):
    moves: tuple[Moving, ...]
    count: Annotated[int, Meta(description="All moves under way; `moves` has some of them if there are very many.")]
    untold: Annotated[int, Meta(description="Shards whose voters no leader has told to a new controller yet.")]
    untold_shards: Annotated[tuple[int, ...], Meta(description="These shards, or some of them if there are very many.")]


async def rebalance(call: Call) -> Rebalance:
    query: RebalanceQuery = call.query
    found = await _report(call, is_trial=query.dry_run)
    return Rebalance(
        status=found.status,
        why=found.why,
        planned_at_ms=_known(found.planned_at_ms),
        steps=tuple(map(_step, found.steps)),
        refusals=tuple(Refusal(it.what, it.sentence) for it in found.refusals),
        recent=tuple(map(_step, found.recent)),
        notes=tuple(Note(it.at_ms, it.broker_id, it.sentence) for it in found.notes),
        brokers=tuple(map(_broker, found.brokers)),
    )


async def moves(call: Call) -> Moves:
    found = await _report(call)
    return Moves(
        tuple(
            Moving(
                it.shard_id,
                it.reason,
                tuple(it.voters),
                tuple(it.replicas),
                tuple(it.previous),
                it.size,
                it.remaining,
            )
            for it in found.moves
        ),
        found.moves_count,
        found.untold_count,
        tuple(found.untold),
    )


async def _report(call: Call, *, is_trial: bool = False) -> cluster_report.Response:
    request = cluster_report.Request(is_trial=is_trial)
    response: cluster_report.Response = await call.brokers.ask_here(cluster_report.API, request)
    check(response.error_code, response.error_message, "the report of the controller")
    return response


def _broker(it: Any) -> BrokerState:
    return BrokerState(
        broker_id=it.broker_id,
        rack=it.rack,
        presence=it.presence,
        drain=it.drain,
        is_live=it.is_live,
        is_ready=it.is_ready,
        heard_by=it.heard_by,
        silent_ms=it.silent_ms,
        live_ms=it.live_ms,
        disk_total=_known(it.disk_total),
        disk_used=_known(it.disk_used),
        cpu=_known(it.cpu),
        replicas=it.replicas,
        leaders=it.leaders,
        bytes=it.bytes,
        not_in_sync=it.not_in_sync,
        untold=it.untold,
        leaving=it.leaving,
    )


def _step(it: Any) -> PlannedStep:
    return PlannedStep(_known(it.at_ms), it.shard_id, it.reason, tuple(it.replicas), it.size, it.sentence, it.problem)


def _known(amount: int) -> int | None:
    return None if amount == UNKNOWN else amount


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/rebalance",
        access=DESCRIBE_CLUSTER,
        handler=rebalance,
        query=RebalanceQuery,
        response=Rebalance,
        summary="The states of all brokers, the last plan for their replicas, its refusals and their reasons.",
    ),
    Route(
        method="GET",
        path="/v1/moves",
        access=DESCRIBE_CLUSTER,
        handler=moves,
        response=Moves,
        summary="The shards whose replicas are on their way to other brokers.",
    ),
)
