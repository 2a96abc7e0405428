"""COUNT and BYTES: move replicas from the brokers that carry most to those that carry least.

Balance begins when a broker is far off the mean, and goes on until all are near it: with one limit for both, it would
begin again with every new shard.  It never undoes what an earlier reason wants: racks stay as good as they are, no disk
gets fuller than its limit, and BYTES leaves the counts where COUNT does not begin.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidemill.metadata.image import Shard
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.data_size import size_text
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.rebalance.draft import Draft, replica_on
from tidemill.rebalance.sentences import brokers_text, counted
from tidemill.rebalance.slices import Slices
from tidemill.rebalance.view import ShardView

PAUSED: Final = (Reason.COUNT, Reason.BYTES)
TARGETS_MAX: Final = 8  # brokers that are tried for one that carries too much, so that a pass is short
FITTING_MAX: Final = 64  # replicas that are compared, likewise
FAILURES_MAX: Final = 8  # brokers that no replica can leave, likewise


@dataclass(frozen=True, slots=True)
class _Measure:
    """What is balanced."""

    reason: Reason
    values: dict[BrokerId, int]  # of the brokers that take part, after all steps; `Accounts` changes it
    brokers: tuple[BrokerId, ...]
    floor: int
    weight: Callable[[ShardView], int]
    text: Callable[[int], str]
    mean: float  # moves among the brokers do not change it

    def is_off(self, percent: int, floor: int) -> bool:
        """Return whether a broker is more than `percent` and more than `floor` off the mean."""
        limit = max(self.mean * percent / 100, floor)
        return any(abs(self.values[broker_id] - self.mean) > limit for broker_id in self.brokers)


def balance_counts(draft: Draft) -> Slices[None]:
    values, brokers = draft.accounts.carried, tuple(draft.brokers.targets)
    if len(brokers) < 2:
        return
    mean = sum(values[broker_id] for broker_id in brokers) / len(brokers)
    floor = draft.policy.count_floor
    yield from _balance(draft, _Measure(Reason.COUNT, values, brokers, floor, lambda _: 1, _replicas_text, mean))


def balance_bytes(draft: Draft) -> Slices[None]:
    if Reason.COUNT in draft.index.balancing:
        return
    unknown = [broker_id for broker_id in draft.brokers.targets if draft.index.unknown[broker_id]]
    if unknown:
        replicas = counted(sum(draft.index.unknown[broker_id] for broker_id in unknown), "replica")
        where = brokers_text(unknown[:10])
        sentence = f"the size is not known of {replicas} on {where}; bytes are not balanced there"
        draft.refuse_all(Reason.BYTES, "bytes", sentence)
    values = draft.accounts.planned_bytes
    brokers = tuple(broker_id for broker_id in draft.brokers.targets if not draft.index.unknown[broker_id])
    if len(brokers) < 2:
        return
    mean = sum(values[broker_id] for broker_id in brokers) / len(brokers)
    floor = draft.policy.bytes_floor
    measure = _Measure(Reason.BYTES, values, brokers, floor, lambda shard: shard.size, size_text, mean)
    yield from _balance(draft, measure)


def _replicas_text(count: int) -> str:
    return counted(count, "replica")


def _balance(draft: Draft, measure: _Measure) -> Slices[None]:
    policy, balancing = draft.policy, draft.index.balancing
    if measure.is_off(policy.begin_percent, measure.floor):
        balancing.add(measure.reason)
    elif not measure.is_off(policy.end_percent, measure.floor // 2):
        balancing.discard(measure.reason)
    if measure.reason not in balancing:
        return
    yield
    sources = list(measure.brokers)
    end = max(measure.mean * policy.end_percent / 100, measure.floor // 2)
    failures = 0
    while failures < FAILURES_MAX and not draft.is_full and measure.is_off(policy.end_percent, measure.floor // 2):
        source = max(sources, key=lambda broker_id: (measure.values[broker_id], -broker_id))
        if measure.values[source] - min(measure.values[b] for b in measure.brokers) <= 2 * end:
            break
        yield
        if not (yield from _relieve(draft, measure, source)):
            sources.remove(source)
            failures += 1


def _relieve(draft: Draft, measure: _Measure, source: BrokerId) -> Slices[bool]:
    """Plan one move from `source`; return whether there was one."""
    problem = draft.figures_problem(source)
    why_not: Counter[str] = Counter() if problem is None else Counter({problem: 1})
    targets = sorted(measure.brokers, key=lambda broker_id: (measure.values[broker_id], broker_id))[:TARGETS_MAX]
    yield
    for target in targets if problem is None else ():
        gap = measure.values[source] - measure.values[target]
        if gap < 2:
            break
        problem = draft.figures_problem(target)
        if problem is None and draft.accounts.incoming[target] >= draft.policy.broker_moves_max:
            problem = f"broker {target} receives as many copies as it may"
        if problem is None and measure.reason is Reason.BYTES and not _keeps_counts(draft, source, target):
            problem = "the numbers of replicas would differ too much"
        if problem is not None:
            why_not[problem] += 1
            continue
        shard = yield from _fitting(draft, measure, source, target, why_not)
        if shard is None:
            continue
        why = (
            f"broker {source} carries {measure.text(measure.values[source])}, broker {target} "
            f"{measure.text(measure.values[target])}, {measure.text(round(measure.mean))} on average"
        )
        substitute = {replica_on(shard, source): draft.brokers.targets[target].key}
        draft.step(shard, draft.view.shards[shard.shard_id], substitute, measure.reason, why)
        return True
    if why_not:
        reasons = ", ".join(f"{why} ({count})" if count > 1 else why for why, count in why_not.most_common(4))
        sentence = (
            f"broker {source} carries {measure.text(measure.values[source])}, and no replica can leave it: {reasons}"
        )
        draft.refuse_all(measure.reason, f"broker {source}", sentence)
    return False


def _fitting(
    draft: Draft, measure: _Measure, source: BrokerId, target: BrokerId, why_not: Counter[str]
) -> Slices[Shard | None]:
    """Return the shard whose move from `source` to `target` brings both nearest to each other; None without one."""
    gap = measure.values[source] - measure.values[target]
    best: tuple[int, int, ShardId] | None = None
    fitting = 0
    for shard_id in draft.index.carried(source):
        problem = _problem(draft, measure, shard_id, source, target, gap)
        if problem is not None:
            why_not[problem] += 1
        else:
            figures = draft.view.shards[shard_id]
            rank = (abs(2 * measure.weight(figures) - gap), figures.size, shard_id)
            best = rank if best is None else min(best, rank)
            fitting += 1
        if draft.work.fills_slice(4):
            yield
        if fitting == FITTING_MAX:
            break
    return None if best is None else draft.image.shards[best[2]]


def _problem(
    draft: Draft, measure: _Measure, shard_id: ShardId, source: BrokerId, target: BrokerId, gap: int
) -> str | None:
    """Return why a replica may not move from `source` to `target`."""
    if shard_id == METADATA_SHARD:
        return "the metadata stays"
    if draft.is_busy(shard_id):
        return "on the way already"
    if shard_id in draft.index.carried(target):
        return f"on broker {target} already"
    if draft.reason_of(shard_id) is Reason.USER:
        return "chosen by a user"
    pause = draft.pause_problem(shard_id, PAUSED, draft.policy.balance_pause_ms)
    if pause is not None:
        return pause
    shard, figures = draft.image.shards[shard_id], draft.view.shards.get(shard_id)
    moving = replica_on(shard, source)
    problem = draft.problem(shard, figures, ())
    if problem is not None or figures is None:
        return problem
    if not 0 < measure.weight(figures) < gap:
        return "too large, or empty"
    if not _keeps_racks(draft, shard, moving, target):
        return "its racks would be fewer"
    if not draft.accounts.has_room(target, draft.brokers.targets[target], figures.size):
        return f"the disk of broker {target} would be too full"
    if not draft.may_copy(figures):
        return "its leader sends as many copies as it may"
    return None


def _keeps_racks(draft: Draft, shard: Shard, moving: ReplicaKey, target: BrokerId) -> bool:
    """Return whether the replicas stay on as many racks, as evenly."""
    on_rack = draft.targets.rack_counts(replica for replica in shard.replicas if replica != moving)
    of = draft.brokers.racks.of
    return on_rack[of.get(target)] <= on_rack[of.get(moving.broker_id)]


def _keeps_counts(draft: Draft, source: BrokerId, target: BrokerId) -> bool:
    """Return whether COUNT would not begin after one more replica has moved."""
    carried = draft.accounts.carried
    brokers = draft.brokers.targets
    mean = sum(carried[broker_id] for broker_id in brokers) / len(brokers)
    limit = max(mean * draft.policy.begin_percent / 100, draft.policy.count_floor)
    return carried[target] + 1 - mean <= limit and mean - (carried[source] - 1) <= limit
