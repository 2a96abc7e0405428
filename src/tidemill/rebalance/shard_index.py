"""ShardIndex: the shards of the image by what the planner looks for, kept up to date by changes.

    image or figures of a shard change ─▶ `changed` notes its id ─▶ the next pass counts it again (`catch_up`)

Counting all shards anew takes tens of milliseconds with 62,500 of them.  The index holds nothing that image and view do
not tell, except when steps began and ended: that it observes, and a new controller begins without it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidemill.metadata.image import ClusterImage
from tidemill.model.broker_id import BrokerId, ReplicaKey, broker_ids
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.rebalance.slices import Slices, Work
from tidemill.rebalance.view import ShardView, View, missing_bytes

FORGET_MS: Final = 3_600_000  # as long as the longest pause between two steps of a shard
MINUTE_MS: Final = 60_000
_EMPTY: Final[dict[ShardId, None]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Racks:
    """Where brokers are, and which racks can take replicas."""

    of: Mapping[BrokerId, str | None]
    usable: frozenset[str | None]


class _Counted(NamedTuple):
    replicas: tuple[ReplicaKey, ...]
    size: int | None  # bytes; None if no leader has told it


@dataclass(slots=True)
class _StepTimes:
    reason: Reason
    brokers: tuple[BrokerId, ...]  # those that gained or lost the shard, or its leadership
    is_copy: bool  # members change; otherwise only their order
    planned_at_ms: int
    ended_at_ms: int | None = None


class ShardIndex:
    def __init__(self, began_at_ms: int) -> None:
        """Begin empty; `began_at_ms` is when this controller took over.  The first pass counts all shards."""
        self.began_at_ms = began_at_ms
        self.under_way: dict[ShardId, None] = {}  # shards whose voters are not the planned ones
        self.missing_bytes = 0  # that the new replicas of these shards lack together
        self.untold: dict[ShardId, int] = {}
        """Shards whose voters no leader has told yet, so that any may be under way; and since when."""
        self.awaits_leader: dict[ShardId, None] = {}  # shards that another broker leads than the preferred one
        self.crowded: dict[ShardId, None] = {}  # shards with a rack that has two replicas more than a usable rack
        self.planned_bytes: Counter[BrokerId] = Counter()  # of shards whose size is known
        self.unknown: Counter[BrokerId] = Counter()  # planned replicas whose size is not known
        self.not_in_sync: Counter[BrokerId] = (
            Counter()
        )  # planned replicas that lack something committed, or are unknown
        self.balancing: set[Reason] = set()  # COUNT or BYTES while it is on the way from its begin to its end limit
        self._carried: dict[BrokerId, dict[ShardId, None]] = {}
        self._led: dict[BrokerId, dict[ShardId, None]] = {}
        self._counted: dict[ShardId, _Counted] = {}
        self._missing: dict[ShardId, int] = {}  # the part of `missing_bytes` of each shard that has one
        self._late: dict[ShardId, tuple[BrokerId, ...]] = {}  # the replicas that `not_in_sync` counts, if any
        self._noted: dict[ShardId, None] = {}
        self._racks: Racks | None = None
        self._steps: dict[ShardId, _StepTimes] = {}  # of the last hour, in the order in which they were planned
        self._step_ended_at: dict[BrokerId, int] = {}
        self._leaders_left: dict[BrokerId, list[int]] = {}  # when LEADER steps took a leadership from a broker

    def changed(self, shard_ids: Iterable[ShardId]) -> None:
        """Note shards that were created, deleted or planned anew, or whose `ShardView` was replaced."""
        self._noted.update(dict.fromkeys(shard_ids))

    def carried(self, broker_id: BrokerId) -> Collection[ShardId]:
        """Return the shards with a planned replica on a broker.  Only `catch_up` changes the collection."""
        return self._carried.get(broker_id, _EMPTY)

    def led(self, broker_id: BrokerId) -> Collection[ShardId]:
        """Return the shards whose preferred leader the broker is."""
        return self._led.get(broker_id, _EMPTY)

    def step_ended_at_ms(self, broker_id: BrokerId) -> int:
        """
        Return when the last step that changed what a broker carries or leads has ended; when this controller took over
        if it has seen none end.
        """
        return self._step_ended_at.get(broker_id, self.began_at_ms)

    def has_ended_step(self, broker_id: BrokerId) -> bool:
        """Return whether this controller has seen a step end that changed what a broker carries or leads."""
        return broker_id in self._step_ended_at

    def last_step(self, shard_id: ShardId) -> tuple[Reason, int, int | None] | None:
        """Return why and when the last step of a shard was planned, and when it ended; None if that is not known."""
        step = self._steps.get(shard_id)
        return None if step is None else (step.reason, step.planned_at_ms, step.ended_at_ms)

    def leaders_left(self, broker_id: BrokerId, now_ms: int) -> int:
        """Return how many leaderships LEADER steps have taken from a broker in the last minute."""
        return sum(at_ms > now_ms - MINUTE_MS for at_ms in self._leaders_left.get(broker_id, ()))

    def catch_up(self, image: ClusterImage, view: View, racks: Racks, work: Work, now_ms: int) -> Slices[None]:
        """Count again what was noted before this call; and every shard if the racks have changed, or at first."""
        noted, self._noted = self._noted, {}
        try:
            if racks != self._racks:
                for shard_id in image.shards:
                    self._count(shard_id, image, view, racks, now_ms)
                    if work.fills_slice(4):
                        yield
                self._racks = racks
            while noted:
                shard_id, _ = noted.popitem()
                self._count(shard_id, image, view, racks, now_ms)
                if work.fills_slice(4):
                    yield
        finally:
            self._noted.update(noted)  # a pass that is given up leaves the rest to the next one
        self._forget(now_ms)

    def _count(self, shard_id: ShardId, image: ClusterImage, view: View, racks: Racks, now_ms: int) -> None:
        shard, figures = image.shards.get(shard_id), view.shards.get(shard_id)
        before = self._counted.get(shard_id)
        if shard is None:
            self._remove(shard_id, before)
            for table in (self.under_way, self.untold, self.awaits_leader, self.crowded, self._steps):
                table.pop(shard_id, None)
            self._set_late(shard_id, ())
            self._set_missing(shard_id, 0)
            return
        replicas, size = shard.replicas, None if figures is None else figures.size
        if before is None or before.size != size or before.replicas != replicas:
            self._remove(shard_id, before)
            self._add(shard_id, _Counted(replicas, size))
            if before is not None and before.replicas != replicas:
                self._step_began(shard_id, before.replicas, replicas, shard.reason, now_ms)
        is_under_way = figures is not None and differs(figures, replicas)
        in_sync = _EMPTY if figures is None else figures.in_sync
        self._set_late(shard_id, tuple(it.broker_id for it in replicas if it.broker_id not in in_sync))
        missing = missing_bytes(figures, replicas) if figures is not None and is_under_way else 0
        self._set_missing(shard_id, missing)
        leader = None if figures is None else figures.leader
        awaits_leader = leader is not None and leader != replicas[0].broker_id
        _put(self.under_way, shard_id, is_under_way)
        if figures is None or figures.membership is None:
            self.untold.setdefault(shard_id, now_ms)
        else:
            self.untold.pop(shard_id, None)
        _put(self.awaits_leader, shard_id, awaits_leader)
        _put(self.crowded, shard_id, _is_crowded(replicas, racks))
        step = self._steps.get(shard_id)
        if step is not None and step.ended_at_ms is None and figures is not None:
            is_done = not is_under_way if step.is_copy else not awaits_leader
            if is_done and figures.membership is not None:
                step.ended_at_ms = now_ms
                self._step_ended_at.update(dict.fromkeys(step.brokers, now_ms))

    def _set_late(self, shard_id: ShardId, late: tuple[BrokerId, ...]) -> None:
        self.not_in_sync.subtract(self._late.pop(shard_id, ()))
        if late:
            self._late[shard_id] = late
            self.not_in_sync.update(late)

    def _set_missing(self, shard_id: ShardId, size: int) -> None:
        self.missing_bytes += size - self._missing.pop(shard_id, 0)
        if size:
            self._missing[shard_id] = size

    def _add(self, shard_id: ShardId, counted: _Counted) -> None:
        self._counted[shard_id] = counted
        self._led.setdefault(counted.replicas[0].broker_id, {})[shard_id] = None
        for replica in counted.replicas:
            self._carried.setdefault(replica.broker_id, {})[shard_id] = None
            if counted.size is None:
                self.unknown[replica.broker_id] += 1
            else:
                self.planned_bytes[replica.broker_id] += counted.size

    def _remove(self, shard_id: ShardId, counted: _Counted | None) -> None:
        if counted is None:
            return
        del self._counted[shard_id]
        del self._led[counted.replicas[0].broker_id][shard_id]
        for replica in counted.replicas:
            del self._carried[replica.broker_id][shard_id]
            if counted.size is None:
                self.unknown[replica.broker_id] -= 1
            else:
                self.planned_bytes[replica.broker_id] -= counted.size

    def _step_began(
        self,
        shard_id: ShardId,
        before: tuple[ReplicaKey, ...],
        after: tuple[ReplicaKey, ...],
        reason: Reason,
        now_ms: int,
    ) -> None:
        moved = [replica for replica in (*before, *after) if (replica in before) != (replica in after)]
        brokers = broker_ids(moved) if moved else [before[0].broker_id, after[0].broker_id]
        self._steps.pop(shard_id, None)  # the new step goes to the end of the order
        self._steps[shard_id] = _StepTimes(reason, tuple(dict.fromkeys(brokers)), bool(moved), now_ms)
        if reason is Reason.LEADER and not moved:
            self._leaders_left.setdefault(before[0].broker_id, []).append(now_ms)

    def _forget(self, now_ms: int) -> None:
        while self._steps:
            shard_id, step = next(iter(self._steps.items()))
            if step.ended_at_ms is None or step.planned_at_ms > now_ms - FORGET_MS:
                break
            del self._steps[shard_id]
        for broker_id, times in self._leaders_left.items():
            self._leaders_left[broker_id] = [at_ms for at_ms in times if at_ms > now_ms - MINUTE_MS]


def differs(figures: ShardView, replicas: tuple[ReplicaKey, ...]) -> bool:
    """Return whether the voters in force are known and are not the planned replicas, in whatever order."""
    if figures.membership is None:
        return False
    voters = figures.membership.voters
    return voters != replicas and (len(voters) != len(replicas) or any(voter not in replicas for voter in voters))


def _is_crowded(replicas: tuple[ReplicaKey, ...], racks: Racks) -> bool:
    if len(racks.usable) < 2:
        return False
    taken = [racks.of.get(replica.broker_id) for replica in replicas]
    if len({*taken}) == len(taken):
        return False
    on_rack = Counter(taken)
    most = max(on_rack.values())
    return any(on_rack[rack] <= most - 2 for rack in racks.usable)


def _put(table: dict[ShardId, None], shard_id: ShardId, is_in: bool) -> None:
    if is_in:
        table[shard_id] = None
    else:
        table.pop(shard_id, None)
