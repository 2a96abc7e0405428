"""Reads from the controller what it knows of brokers and moves, through the broker that serves the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from tidemill.client.failures import ClientError
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.cluster_view import BrokerRow, ClusterView
from tidemill.model import errors
from tidemill.peer import cluster_report
from tidemill.rebalance.state_words import broker_state, copied_percent

VERSION: Final = 0  # brokers do not advertise the API


class BrokerState(NamedTuple):
    is_live: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRow:
    """A shard whose voters are on their way to the planned replicas."""

    shard_id: int
    reason: str
    voters: Sequence[int]  # in force
    replicas: Sequence[int]  # planned, the preferred leader first
    copied: int | None  # percent of the new replicas; None if there is nothing to copy
    remaining: int  # bytes that they lack


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """What the controller has answered."""

    status: str | None = None  # idle, working, stalled or off; None if it is not known
    why: str | None = None  # why it is stalled or off
    states: Mapping[int, BrokerState] = field(default_factory=lambda: MappingProxyType({}))  # by broker
    moves: Sequence[MoveRow] = ()  # under way; some of them if there are very many
    moves_count: int = 0  # all of them
    refusals: Sequence[str] = ()  # sentences: what else should be done and cannot be done now
    problem: str | None = None  # why nothing is known


NOT_READ: Final = Rebalance(problem="The controller has not answered yet.")


def read(view: ClusterView) -> Rebalance:
    """Ask the broker that serves the page, which asks the controller."""
    rows = view.brokers()
    asked = next((row.broker_id for row in rows if row.is_self), None)
    if asked is None:
        return Rebalance(problem="This broker is not in the cluster any more.")
    with ClusterReader(rows) as reader:
        return report(reader, asked)


def report(reader: ClusterReader, asked: int) -> Rebalance:
    try:
        response: cluster_report.Response = reader.ask(
            asked, cluster_report.API, cluster_report.Request(), version=VERSION
        )
    except ClientError as error:
        return Rebalance(problem=f"The controller cannot be asked: {error}")
    if response.error_code != errors.NONE:
        why = response.error_message or errors.name(response.error_code)
        return Rebalance(problem=f"The controller cannot be asked: {why}")
    return Rebalance(
        status=response.status,
        why=response.why,
        states={it.broker_id: BrokerState(it.is_live, _words(it)) for it in response.brokers},
        moves=[
            MoveRow(
                shard_id=it.shard_id,
                reason=it.reason,
                voters=it.voters,
                replicas=it.replicas,
                copied=copied_percent(voters=it.voters, replicas=it.replicas, size=it.size, remaining=it.remaining),
                remaining=it.remaining,
            )
            for it in response.moves
        ],
        moves_count=response.moves_count,
        refusals=[it.sentence for it in response.refusals if it.sentence != response.why],
    )


def _words(broker: cluster_report.Response.Broker) -> str:
    return broker_state(
        presence=broker.presence,
        drain=broker.drain,
        is_live=broker.is_live,
        is_heard=broker.heard_by > 0,
        is_ready=broker.is_ready,
        silent_ms=broker.silent_ms,
        live_ms=broker.live_ms,
        replicas=broker.replicas + broker.leaving,
    )


def state_of(row: BrokerRow, rebalance: Rebalance) -> BrokerState:
    """
    Return the state of a broker: as the controller sees it, unless the broker that serves the page hears it and the
    controller does not, or the other way round; then, and without the controller, as the serving broker knows it.
    """
    told = rebalance.states.get(row.broker_id)
    if told is not None and told.is_live == row.is_up:
        return told
    words = broker_state(
        presence=row.presence,
        drain=row.drain,
        is_live=row.is_up,
        is_heard=row.silent_ms is None and row.kafka is not None,  # None before it has registered
        is_ready=True,
        silent_ms=row.silent_ms,
        live_ms=None,
        replicas=max(row.carried, 1),  # only the controller knows whether it has a vote with what is planned elsewhere
    )
    return BrokerState(row.is_up, words)
