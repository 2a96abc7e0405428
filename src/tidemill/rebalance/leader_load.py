"""LEADER: lets another in-sync replica lead some of the shards of the busiest broker.  No byte moves.

A transfer interrupts clients briefly.  So leaders move only if all transfers that are possible would together relieve
the busiest broker noticeably, and only a few of them in a minute.
"""

from typing import Final, NamedTuple

from tidemill.metadata.image import Shard
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.rebalance.draft import Draft
from tidemill.rebalance.largest import keep_largest
from tidemill.rebalance.sentences import counted, points
from tidemill.rebalance.slices import Slices
from tidemill.rebalance.view import ShardView

SHARDS_MAX: Final = 256  # of the busiest broker, the costliest first: more would not leave it within minutes


class _Transfer(NamedTuple):
    shard: Shard
    to: ReplicaKey
    cpu: int  # per mille of a core that the leader spends on the shard


def balance_leaders(draft: Draft) -> Slices[None]:
    cpu = {broker_id: broker.cpu for broker_id, broker in draft.brokers.targets.items() if broker.cpu is not None}
    for shard_id in draft.index.awaits_leader:  # planned transfers, whose load is measured at the old leader
        _count_awaited(draft, shard_id, cpu)
        if draft.work.fills_slice():
            yield
    if len(cpu) < 2:
        return
    busiest = max(cpu, key=lambda broker_id: (cpu[broker_id], -broker_id))
    if cpu[busiest] - min(cpu.values()) < draft.policy.leader_gain:
        return
    problem = draft.figures_problem(busiest)
    if problem is not None:
        draft.refuse_all(Reason.LEADER, f"broker {busiest}", f"broker {busiest} is the busiest; {problem}")
        return
    costly: list[tuple[int, int]] = []
    for shard_id in draft.index.led(busiest):
        figures = draft.view.shards.get(shard_id)
        if figures is not None and figures.cpu > 0 and _may_transfer(draft, shard_id, figures, busiest):
            keep_largest(costly, (figures.cpu, shard_id), SHARDS_MAX)
        if draft.work.fills_slice():
            yield
    yield
    after = dict(cpu)
    transfers = yield from _transfers(draft, busiest, sorted(costly, key=lambda item: (-item[0], item[1])), after)
    gain = cpu[busiest] - max([after[busiest], *(after[transfer.to.broker_id] for transfer in transfers)])
    if gain >= draft.policy.leader_gain:
        _plan(draft, busiest, transfers, cpu, gain)


def _count_awaited(draft: Draft, shard_id: ShardId, cpu: dict[BrokerId, int]) -> None:
    figures, to = draft.view.shards.get(shard_id), draft.image.shards[shard_id].replicas[0].broker_id
    if figures is not None and figures.leader in cpu and to in cpu and to in figures.in_sync:
        cpu[figures.leader] -= figures.cpu
        cpu[to] += figures.cpu


def _may_transfer(draft: Draft, shard_id: ShardId, figures: ShardView, leader: BrokerId) -> bool:
    if figures.leader != leader or shard_id == METADATA_SHARD or draft.is_busy(shard_id):
        return False
    if draft.reason_of(shard_id) is Reason.USER or not draft.is_measured(shard_id, figures):
        return False
    return draft.pause_problem(shard_id, (Reason.LEADER,), draft.policy.leader_pause_ms) is None


def _transfers(
    draft: Draft, busiest: BrokerId, costly: list[tuple[int, int]], cpu: dict[BrokerId, int]
) -> Slices[list[_Transfer]]:
    """Return the transfers that relieve the busiest broker, the costliest first, and add up `cpu` after them.

    None makes another broker as busy as the busiest one.
    """
    transfers = []
    for cost, number in costly:
        shard_id = ShardId(number)
        shard, figures = draft.image.shards[shard_id], draft.view.shards[shard_id]
        able = [
            replica
            for replica in shard.replicas
            if replica.broker_id in cpu and replica.broker_id in figures.in_sync and draft.brokers.can_take(replica)
        ]
        able = [replica for replica in able if draft.figures_problem(replica.broker_id) is None]
        to = min(able, key=lambda replica: (cpu[replica.broker_id], replica.broker_id), default=None)
        if to is not None and to.broker_id != busiest and cpu[to.broker_id] + cost < cpu[busiest]:
            cpu[to.broker_id] += cost
            cpu[busiest] -= cost
            transfers.append(_Transfer(shard, to, cost))
        if draft.work.fills_slice(4):
            yield
    return transfers


def _plan(draft: Draft, busiest: BrokerId, transfers: list[_Transfer], cpu: dict[BrokerId, int], gain: int) -> None:
    left = draft.index.leaders_left(busiest, draft.now_ms)
    led = len(draft.index.led(busiest)) + left  # when the minute began
    a_minute = max(1, led * draft.policy.leaders_percent // 100)
    allowed = max(0, a_minute - left)
    for shard, to, cost in transfers[:allowed]:
        draft.reorder(
            shard,
            to,
            Reason.LEADER,
            f"broker {busiest} is at {points(cpu[busiest])}, broker {to.broker_id} at {points(cpu[to.broker_id])}; "
            f"the shard takes {points(cost)}, and all transfers together gain {points(gain)}",
        )
    if len(transfers) > allowed:
        waiting = counted(len(transfers) - allowed, "more leader")
        sentence = f"{waiting} of broker {busiest} must wait: {a_minute} of its {led} may leave it within a minute"
        draft.refuse_all(Reason.LEADER, f"broker {busiest}", sentence)
