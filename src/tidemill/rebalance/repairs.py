"""REPLACE: gives every shard another goal if its goal names a broker that is gone, or a newcomer that cannot take it.

A shard is on its way while its voters differ from its planned replicas.  A *newcomer* is planned and does not vote yet;
a *leaver* votes and is planned no more.

- A planned replica whose broker is GONE and silent gets a substitute: a leaver that is well, since it has everything,
  else the best target.  All replicas that are gone are replaced in one goal; the shard's leader promotes one at a time.
- A newcomer whose broker is SILENT and down, drained or full gets a substitute: otherwise the goal would never be
  reached.
- A shard that is on its way and has no live majority is a refusal, whatever its reason; so is one that has no leader
  which could tell a new controller whether it is on its way.
- A leaver that was replaced because it was gone and is back takes the place of its substitute, unless the substitute
  votes already, or has nearly everything.
"""

from tidemill.metadata.image import Shard
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.data_size import size_text
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.rebalance.draft import Draft, may_shrink
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.sentences import duration, percent
from tidemill.rebalance.slices import Slices
from tidemill.rebalance.view import BrokerView, ShardView, remaining


def replace_lost(draft: Draft) -> Slices[None]:
    if METADATA_SHARD in draft.image.shards:
        _repair(draft, METADATA_SHARD)  # first, because no other plan can be written without it
    for shard_id in draft.index.under_way:
        if shard_id != METADATA_SHARD:
            _repair(draft, shard_id)
        if draft.work.fills_slice(4):
            yield
    gone = {*draft.brokers.gone}
    for broker_id in draft.brokers.gone:
        for shard_id in draft.index.carried(broker_id):
            replicas = draft.image.shards[shard_id].replicas
            is_first = broker_id == next(it.broker_id for it in replicas if it.broker_id in gone)
            if is_first and shard_id != METADATA_SHARD and not draft.is_busy(shard_id):
                _repair(draft, shard_id)  # all its replicas that are gone
            if draft.work.fills_slice(4):
                yield
    yield from _name_leaderless(draft)


def _name_leaderless(draft: Draft) -> Slices[None]:
    """
    Refuse each shard whose members no leader tells a new controller.  It may be on its way, and have lost its majority;
    nothing else names it, because its planned replicas may all be well.
    """
    for shard_id, since_ms in draft.index.untold.items():
        shard = draft.image.shards[shard_id]
        is_late = draft.now_ms - since_ms >= draft.policy.untold_after_ms
        if is_late and shard_id != METADATA_SHARD and not _lost(draft, shard, ()):  # those are refused already
            so_far = f"for {duration(draft.now_ms - since_ms)}"
            draft.refuse(shard.reason, shard_id, draft.untold_problem(shard, so_far))
        if draft.work.fills_slice(4):
            yield


def _repair(draft: Draft, shard_id: ShardId) -> None:
    shard, figures = draft.image.shards[shard_id], draft.view.shards.get(shard_id)
    voters = () if figures is None or figures.membership is None else figures.membership.voters
    lost = _lost(draft, shard, voters)
    back = [voter for voter in voters if voter not in shard.replicas and draft.brokers.can_take(voter)]
    is_replacement = draft.reason_of(shard_id) is Reason.REPLACE
    if not lost and not (is_replacement and back):
        _name_who_must_come_back(draft, shard_id, figures)
        return
    why = next(iter(lost.values()), "its former member is back")
    problem = draft.problem(shard, figures, shard.replicas)
    if problem is not None or figures is None:
        draft.refuse(Reason.REPLACE, shard_id, f"{why}; {problem}")
        return
    substitutes = {replica: back.pop(0) for replica in [*lost][: len(back)]}
    if is_replacement and back:
        for newcomer in shard.replicas:
            if back and newcomer not in voters and newcomer not in lost and not _has_most(draft, figures, newcomer):
                why = why if lost else _return_text(draft, figures, newcomer, back[0])
                substitutes[newcomer] = back.pop(0)
    left = [replica for replica in lost if replica not in substitutes]
    if left:
        _choose(draft, shard, figures, left, substitutes, why)
    if substitutes:
        draft.step(shard, figures, substitutes, Reason.REPLACE, why)


def _name_who_must_come_back(draft: Draft, shard_id: ShardId, figures: ShardView | None) -> None:
    """Refuse a move under way, whatever its reason, whose shard has lost its majority: it would never end unsaid."""
    if shard_id in draft.index.under_way and figures is not None:
        problem = draft.brokers.majority_problem(figures)
        if problem is not None:
            draft.refuse(draft.reason_of(shard_id), shard_id, f"its move cannot go on; {problem}")


def _choose(
    draft: Draft,
    shard: Shard,
    figures: ShardView,
    left: list[ReplicaKey],
    substitutes: dict[ReplicaKey, ReplicaKey],
    why: str,
) -> None:
    """Add the best targets for the replicas `left` to `substitutes`, as far as there are any."""
    if shard.shard_id not in draft.index.under_way and not draft.may_copy(figures):
        draft.waiting[Reason.REPLACE] += 1
        return
    for replica in left:
        staying = [substitutes.get(other, other) for other in shard.replicas if other != replica]
        choice = draft.targets.choose(staying, figures.size)
        draft.work.add(choice.looked_at)
        if choice.chosen is not None:
            substitutes[replica] = choice.chosen
        elif choice.busy:
            draft.waiting[Reason.REPLACE] += 1
        elif not substitutes and may_shrink(shard, choice):
            draft.drop(shard, figures, replica, Reason.REPLACE, why)
            return
        else:
            problem = draft.targets.problem(choice, shard.replicas, figures.size)
            draft.refuse(Reason.REPLACE, shard.shard_id, f"{why}; {problem}")


def _lost(draft: Draft, shard: Shard, voters: tuple[ReplicaKey, ...]) -> dict[ReplicaKey, str]:
    """Return the planned replicas that need a substitute, each with the reason."""
    lost = {}
    for replica in shard.replicas:
        broker = draft.brokers.known.get(replica.broker_id)
        if broker is None or broker.key != replica:
            continue
        is_newcomer = bool(voters) and replica not in voters
        is_away = broker.presence is Presence.SILENT and not broker.is_live  # one that is just back can be copied to
        # A voter whose broker is live again stays: it will be ACTIVE in a moment, or silent again.
        is_gone = broker.presence is Presence.GONE and (is_newcomer or not broker.is_live)
        if is_gone or (is_newcomer and is_away):
            lost[replica] = draft.brokers.text_of_silence(replica.broker_id)
        elif is_newcomer and broker.drain is Drain.ALL:
            lost[replica] = f"broker {replica.broker_id} is drained before it has all"
        elif is_newcomer and (full := disk_problem(broker, draft.policy)) is not None:
            lost[replica] = full
    return lost


def disk_problem(broker: BrokerView, policy: Policy) -> str | None:
    """Return why a broker's disk is too full for a copy, even if a user has asked for it; None if it is not."""
    used, total, limit = broker.disk_used, broker.disk_total, policy.newcomer_disk_percent_max
    if used is None or total is None or used * 100 <= total * limit:
        return None
    return f"the disk of broker {broker.key.broker_id} is {percent(used, total)} full, more than {limit} %"


def _has_most(draft: Draft, figures: ShardView, newcomer: ReplicaKey) -> bool:
    """Return whether a newcomer has so much that it should vote soon, although the former member is back."""
    copied = figures.size - remaining(figures, newcomer)
    return copied * 100 > figures.size * draft.policy.copied_percent


def _return_text(draft: Draft, figures: ShardView, newcomer: ReplicaKey, back: ReplicaKey) -> str:
    copied = figures.size - remaining(figures, newcomer)
    live_ms = draft.brokers.known[back.broker_id].live_ms
    return (
        f"broker {back.broker_id} is back, live for {duration(live_ms)}; broker {newcomer.broker_id} has "
        f"{percent(copied, figures.size)} of {size_text(figures.size)}"
    )
