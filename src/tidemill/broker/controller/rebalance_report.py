"""RebalanceReport: what operators see of re-placement: the last plan, recent steps, and what is under way."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.partition_reassignments import former_brokers
from tidemill.metadata.result import Problem
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.rebalance.plan import Refusal, Status, Step
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.view import BrokerView, View, missing_bytes

MOVES_MAX: Final = 1_000  # listed in a report; a user can plan moves of all shards at once


class RecentStep(NamedTuple):
    at_ms: int  # wall clock
    step: Step
    problem: str | None  # why it was dropped; None if it is recorded


class PresenceNote(NamedTuple):
    at_ms: int  # wall clock
    broker_id: BrokerId
    sentence: str


class ReportedBroker(NamedTuple):
    view: BrokerView
    replicas: int  # planned
    leaders: int  # shards whose preferred leader it is
    size: int  # bytes of its planned replicas, as far as their sizes are known
    not_in_sync: int  # planned replicas that lack what is committed, or of which no leader has told yet
    untold: int  # planned replicas of which no leader has told this controller yet
    leaving: int  # replicas that are planned elsewhere, of which it may still have the vote


class MoveUnderWay(NamedTuple):
    shard_id: ShardId
    reason: Reason
    voters: tuple[BrokerId, ...]  # in force
    replicas: tuple[BrokerId, ...]  # planned, preferred leader first
    previous: tuple[BrokerId, ...]  # to which a cancelled move returns
    size: int  # bytes of one replica
    remaining: int  # bytes that all new replicas together lack


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceReport:
    status: Status
    why: str | None = None  # why it is off or stalled
    planned_at_ms: int | None = None  # wall clock
    steps: tuple[Step, ...] = ()  # of the last plan
    refusals: tuple[Refusal, ...] = ()
    recent: tuple[RecentStep, ...] = ()  # newest last
    notes: tuple[PresenceNote, ...] = ()  # changes of presence, newest last
    brokers: Mapping[BrokerId, ReportedBroker] = field(default_factory=lambda: MappingProxyType({}))
    moves: tuple[MoveUnderWay, ...] = ()
    moves_count: int = 0  # all of them, of which `moves` has MOVES_MAX at most
    untold_count: int = 0  # shards whose voters no leader has told yet: any of them may be under way, too
    untold: tuple[ShardId, ...] = ()  # these shards, MOVES_MAX of them at most


def reported_brokers(image: ClusterImage, view: View, index: ShardIndex) -> dict[BrokerId, ReportedBroker]:
    leaving = _leaving(image, view, index)
    return {
        broker_id: ReportedBroker(
            view=broker,
            replicas=len(index.carried(broker_id)),
            leaders=len(index.led(broker_id)),
            size=index.planned_bytes[broker_id],
            not_in_sync=index.not_in_sync[broker_id],
            untold=index.unknown[broker_id],
            leaving=leaving[broker_id],
        )
        for broker_id, broker in view.brokers.items()
        if broker_id in image.brokers  # it may have been removed since the last pass
    }


def _leaving(image: ClusterImage, view: View, index: ShardIndex) -> Counter[BrokerId]:
    """
    Return how many replicas each broker may have a vote with that are planned elsewhere: it is not empty before they
    are copied.  As long as no leader has told the voters of a shard, those before its last move may be the voters.
    """
    leaving: Counter[BrokerId] = Counter()
    for shard_id in index.under_way | index.untold:
        shard, figures = image.shards.get(shard_id), view.shards.get(shard_id)
        if shard is not None:
            told = None if figures is None or figures.membership is None else figures.membership.voters
            planned = {replica.broker_id for replica in shard.replicas}
            leaving.update({it.broker_id for it in (told or shard.previous)} - planned)
    return leaving


def moves_under_way(image: ClusterImage, view: View, index: ShardIndex) -> tuple[MoveUnderWay, ...]:
    """Return the shards whose voters differ from the planned replicas, at most MOVES_MAX of them."""
    moves = []
    for shard_id in index.under_way:
        shard, figures = image.shards.get(shard_id), view.shards.get(shard_id)
        if shard is None or figures is None or figures.membership is None:
            continue
        voters, former = figures.membership.voters, former_brokers(image, shard)
        moves.append(
            MoveUnderWay(
                shard_id,
                shard.reason,
                tuple(broker_ids(voters)),
                tuple(broker_ids(shard.replicas)),
                () if isinstance(former, Problem) else former,
                figures.size,
                missing_bytes(figures, shard.replicas),
            )
        )
        if len(moves) == MOVES_MAX:
            break
    return tuple(moves)
