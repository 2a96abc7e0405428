"""`/v1/brokers/…` and `/v1/shards/…`: drain, replace and remove brokers, and move shards.

Any broker answers; the controller decides.  An answer comes when the command is committed; `/v1/moves` shows how far
what follows from it has come.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from tidemill.http.v1.calls import Call, Refused, Route
from tidemill.http.v1.kafka_errors import check
from tidemill.http.v1.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER
from tidemill.peer import cluster_operation
from tidemill.peer.cluster_operation import NO_ID, Operation

BROKER_ID_MAX: Final = (1 << 31) - 1
SHARD_ID_MAX: Final = (1 << 63) - 1
BROKERS_MAX: Final = 1_000

BrokerNumber = Annotated[int, Meta(ge=0, le=BROKER_ID_MAX)]
Brokers = Annotated[tuple[BrokerNumber, ...], Meta(max_length=BROKERS_MAX)]
DryRun = Annotated[bool, Meta(description="Only check whether it can be done.")]


class DrainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    of: Annotated[
        Literal["leaders", "all"],
        Meta(description="leaders: others lead while the broker restarts; all: it is emptied."),
    ]
    force: Annotated[bool, Meta(description="Drain it although some shards have no place elsewhere.")] = False
    dry_run: DryRun = False


class UndrainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ReplaceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    brokers: Annotated[Brokers, Meta(description="None: all brokers that are silent.")] = ()
    dry_run: DryRun = False


class MoveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    brokers: Annotated[Brokers, Meta(min_length=1, description="All replicas, the preferred leader first.")]


class TransferBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker_id: Annotated[BrokerNumber, Meta(description="The broker that is to lead the shard from now on.")]


class Finding(msgspec.Struct, frozen=True):
    """A fact that an operator should know: why something is refused, or what follows from it."""

    kind: str
    sentence: str
    shard_id: int | None = None
    broker_id: int | None = None


class Findings(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]


class MayStop(msgspec.Struct, frozen=True):
    may_stop: Annotated[bool, Meta(description="Whether each shard keeps an in-sync majority without the broker.")]
    findings: tuple[Finding, ...]


async def drain(call: Call) -> Findings:
    body: DrainBody = call.body
    operation = Operation.DRAIN_ALL if body.of == "all" else Operation.DRAIN_LEADERS
    return await _operate(call, operation, broker_id=_broker(call), is_forced=body.force, is_trial=body.dry_run)


async def undrain(call: Call) -> Findings:
    return await _operate(call, Operation.UNDRAIN, broker_id=_broker(call))


async def may_stop(call: Call) -> MayStop:
    found = await _operate(call, Operation.MAY_STOP, broker_id=_broker(call))
    return MayStop(not found.findings, found.findings)


async def replace(call: Call) -> Findings:
    body: ReplaceBody = call.body
    return await _operate(call, Operation.REPLACE, brokers=body.brokers, is_trial=body.dry_run)


async def remove(call: Call) -> None:
    await _operate(call, Operation.REMOVE, broker_id=_broker(call))


async def move(call: Call) -> Findings:
    body: MoveBody = call.body
    return await _operate(call, Operation.MOVE, shard_id=_shard(call), brokers=body.brokers)


async def cancel(call: Call) -> None:
    await _operate(call, Operation.CANCEL, shard_id=_shard(call))


async def transfer(call: Call) -> Findings:
    body: TransferBody = call.body
    return await _operate(call, Operation.TRANSFER, shard_id=_shard(call), broker_id=body.broker_id)


async def _operate(call: Call, operation: Operation, **fields: Any) -> Findings:
    """Ask the controller.  Raise Refused with its findings if it refuses."""
    request = cluster_operation.Request(operation=operation, **fields)
    response = await call.brokers.ask_here(cluster_operation.API, request)
    findings = tuple(
        Finding(
            it.kind,
            it.sentence,
            None if it.shard_id == NO_ID else it.shard_id,
            None if it.broker_id == NO_ID else it.broker_id,
        )
        for it in response.findings
    )
    try:
        check(response.error_code, response.error_message, operation.name.lower())
    except Refused as refused:
        raise refused.with_fields(findings=msgspec.to_builtins(findings)) from None
    return Findings(findings)


def _broker(call: Call) -> int:
    return _number(call.names["broker_id"], "broker", BROKER_ID_MAX)


def _shard(call: Call) -> int:
    return _number(call.names["shard_id"], "shard", SHARD_ID_MAX)


def _number(text: str, what: str, most: int) -> int:
    """Return the number in a path.  Raise Refused for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most
    if not is_number:
        raise Refused(404, f"{what} {text[:100]!r} does not exist: its number is from 0 to {most}")
    return int(text)


ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/brokers/{broker_id}/drain",
        access=ALTER_CLUSTER,
        handler=drain,
        body=DrainBody,
        example={"of": "leaders", "dry_run": True},
        response=Findings,
        summary="Drain a broker of its leaders, for maintenance, or of all that it has, before it leaves.",
    ),
    Route(
        method="POST",
        path="/v1/brokers/{broker_id}/undrain",
        access=ALTER_CLUSTER,
        handler=undrain,
        body=UndrainBody,
        example={},
        response=Findings,
        summary="End the drain of a broker: it leads, and gets replicas again.",
    ),
    Route(
        method="GET",
        path="/v1/brokers/{broker_id}/may-stop",
        access=DESCRIBE_CLUSTER,
        handler=may_stop,
        response=MayStop,
        summary="Whether a broker may stop now: which shards would lose their in-sync majority.",
    ),
    Route(
        method="POST",
        path="/v1/brokers/replace",
        access=ALTER_CLUSTER,
        handler=replace,
        body=ReplaceBody,
        example={"dry_run": True},
        response=Findings,
        summary="Declare silent brokers gone, so that their replicas are placed on others at once.",
    ),
    Route(
        method="DELETE",
        path="/v1/brokers/{broker_id}",
        access=ALTER_CLUSTER,
        handler=remove,
        response=None,
        status=204,
        summary="Remove a broker that is down and carries nothing from the cluster.",
    ),
    Route(
        method="POST",
        path="/v1/shards/{shard_id}/move",
        access=ALTER_CLUSTER,
        handler=move,
        body=MoveBody,
        example={"brokers": [1]},
        response=Findings,
        summary="Place the replicas of a shard on other brokers.",
    ),
    Route(
        method="POST",
        path="/v1/shards/{shard_id}/transfer",
        access=ALTER_CLUSTER,
        handler=transfer,
        body=TransferBody,
        example={"broker_id": 1},
        response=Findings,
        summary="Let another replica of a shard lead it.",
    ),
    Route(
        method="DELETE",
        path="/v1/moves/{shard_id}",
        access=ALTER_CLUSTER,
        handler=cancel,
        response=None,
        status=204,
        summary="Cancel a move: the shard goes back to the brokers that it was on, without those that are gone.",
    ),
)
