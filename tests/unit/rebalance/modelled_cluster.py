"""A cluster on paper: brokers and shards that a test changes, plans for, and moves on step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.unit.metadata.controller_world import ENDPOINTS, voter
from tidemill.metadata.feature_levels import NEWEST
from tidemill.metadata.image import EMPTY, Broker, ClusterImage, Shard
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.model.topic import TopicId
from tidemill.raft.voters import Membership
from tidemill.rebalance.plan import Plan, Status, Step
from tidemill.rebalance.planner import decide
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.slices import finish
from tidemill.rebalance.view import BrokerView, ShardView, View

GIB = 1 << 30
HOUR_MS = 3_600_000
START_MS = 10 * HOUR_MS
UNBALANCED = Policy(count_floor=1_000_000, bytes_floor=1 << 60)
"""COUNT and BYTES never begin, so that the steps of a small cluster have other reasons."""


def keys(*broker_ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(voter(broker_id) for broker_id in broker_ids)


def ids(replicas: Sequence[ReplicaKey]) -> list[int]:
    return [replica.broker_id for replica in replicas]


@dataclass(slots=True)
class ModelledShard:
    replicas: tuple[ReplicaKey, ...]  # planned
    voters: tuple[ReplicaKey, ...]  # in force
    size: int
    cpu: int
    leader: int | None
    reason: Reason = Reason.PLACED
    copied: dict[ReplicaKey, int] = field(default_factory=dict)  # bytes that members who do not vote have
    late: frozenset[int] = frozenset()  # brokers whose replica lags behind
    is_known: bool = True
    previous: tuple[ReplicaKey, ...] = ()  # planned before the last goal
    measured_at_ms: int | None = None  # when its leader measured what is reported; None: now


class ModelledCluster:
    def __init__(self, racks: Sequence[str | None], policy: Policy = UNBALANCED, *, began_at_ms: int = 0) -> None:
        """Create brokers 1, 2, 3 … on `racks`, all of them well, with disks of 100 GiB that are empty."""
        self.policy = policy
        self.now_ms = START_MS
        self.index = ShardIndex(began_at_ms)
        self.shards: dict[int, ModelledShard] = {}
        self.other_bytes: dict[int, int] = {}  # on a broker's disk, beside its replicas
        self.reported_at_ms: dict[int, int] = {}  # when a broker has last reported its figures; 0: never; else now
        self.brokers = {
            number: BrokerView(
                key=voter(number), rack=rack, live_ms=HOUR_MS, heard_by=len(racks), disk_total=100 * GIB, cpu=0
            )
            for number, rack in enumerate(racks, 1)
        }

    def add(
        self,
        *broker_ids: int,
        size: int = GIB,
        cpu: int = 0,
        reason: Reason = Reason.PLACED,
        shard_id: int | None = None,
    ) -> int:
        """Add a shard with its replicas on these brokers; the first one leads it.  By default, it has a new id."""
        shard_id = max(self.shards, default=0) + 1 if shard_id is None else shard_id
        replicas = keys(*broker_ids)
        self.shards[shard_id] = ModelledShard(replicas, replicas, size, cpu, broker_ids[0], reason)
        self._changed(shard_id)
        return shard_id

    def set(self, broker_id: int, **changes: Any) -> None:
        self.brokers[broker_id] = replace(self.brokers[broker_id], **changes)

    def plan(self, shard_id: int, *broker_ids: int, reason: Reason, copied: int = 0) -> None:
        """Give a shard another goal; its newcomers have `copied` bytes already."""
        shard = self.shards[shard_id]
        shard.previous, shard.replicas, shard.reason = shard.replicas, keys(*broker_ids), reason
        shard.copied = {replica: copied for replica in shard.replicas if replica not in shard.voters}
        self._changed(shard_id)

    def forget(self, shard_id: int) -> None:
        """Let no leader have told anything of a shard yet."""
        self.shards[shard_id].is_known = False
        self._changed(shard_id)

    def lose(self, broker_id: int, presence: Presence = Presence.GONE, silent_ms: int = 302_000) -> None:
        """Let a broker fall silent; the shards that it led are led by others."""
        self.set(
            broker_id, is_live=False, is_ready=False, heard_by=0, live_ms=0, silent_ms=silent_ms, presence=presence
        )
        self._elect()

    def bring_back(self, broker_id: int) -> None:
        self.set(
            broker_id,
            is_live=True,
            is_ready=True,
            heard_by=len(self.brokers),
            live_ms=31_000,
            silent_ms=0,
            presence=Presence.ACTIVE,
        )
        self._elect()

    def replace_directory(self, broker_id: int) -> None:
        """Let a broker come back with an empty directory, which takes the place of its former one in all goals."""
        former = self.brokers[broker_id].key
        key = ReplicaKey(former.broker_id, DirectoryId(bytes([100 + broker_id]) * 16))
        self.set(broker_id, key=key)
        self.bring_back(broker_id)
        for number, shard in self.shards.items():
            shard.replicas = tuple(key if replica == former else replica for replica in shard.replicas)
            self._changed(number)

    @property
    def image(self) -> ClusterImage:
        brokers = {
            broker.key.broker_id: Broker(
                broker_id=broker.key.broker_id,
                directory_id=broker.key.directory_id,
                endpoints=ENDPOINTS,
                rack=broker.rack,
                level=NEWEST,
            )
            for broker in self.brokers.values()
        }
        shards = {
            ShardId(number): Shard(
                shard_id=ShardId(number),
                topic_id=TopicId(bytes(16)),
                first_partition=number,
                partition_count=1,
                initial_voters=shard.replicas,
                replicas=shard.replicas,
                previous=shard.previous,
                reason=shard.reason,
            )
            for number, shard in self.shards.items()
        }
        return replace(EMPTY, shards=shards, brokers=brokers)

    @property
    def view(self) -> View:
        brokers = {
            BrokerId(number): replace(
                broker,
                disk_used=self.disk_used(number),
                cpu=self.cpu(number),
                figures_at_ms=self.reported_at_ms.get(number, self.now_ms),
            )
            for number, broker in self.brokers.items()
        }
        shards = {ShardId(number): self._figures(shard) for number, shard in self.shards.items() if shard.is_known}
        return View(brokers=brokers, shards=shards)

    def disk_used(self, broker_id: int) -> int:
        key = self.brokers[broker_id].key
        held = sum(shard.size for shard in self.shards.values() if key in shard.voters)
        return (
            held + sum(shard.copied.get(key, 0) for shard in self.shards.values()) + self.other_bytes.get(broker_id, 0)
        )

    def cpu(self, broker_id: int) -> int:
        own = self.brokers[broker_id].cpu or 0
        return own + sum(shard.cpu for shard in self.shards.values() if shard.leader == broker_id)

    def decide(self, image: ClusterImage | None = None) -> Plan:
        image = self.image if image is None else image
        return finish(decide(image, self.view, self.policy, self.now_ms, self.index))

    def apply(self, steps: Sequence[Step]) -> None:
        """Write the steps, as the host writes ReplicasRecords."""
        for step in steps:
            shard = self.shards[step.shard_id]
            shard.replicas, shard.reason = step.replicas, step.reason
            shard.copied = {replica: size for replica, size in shard.copied.items() if replica in step.replicas} | {
                r: 0 for r in step.replicas if r not in shard.voters and r not in shard.copied
            }
            self._changed(step.shard_id)

    def advance(self, *, copy: int = 100 * GIB, milliseconds: int = 1_000) -> None:
        """Let time pass: leaders copy `copy` bytes to each newcomer, change members, and transfer their leadership."""
        self.now_ms += milliseconds
        for number, shard in self.shards.items():
            before = (shard.voters, shard.leader, dict(shard.copied))
            if shard.leader is not None:
                for replica in shard.copied:
                    if self.brokers[replica.broker_id].is_live:
                        shard.copied[replica] = min(shard.size, shard.copied[replica] + copy)
                if all(copied == shard.size for copied in shard.copied.values()):
                    shard.voters, shard.copied = shard.replicas, {}
            self._lead(shard)
            if before != (shard.voters, shard.leader, shard.copied):
                self._changed(number)

    def run(self, *, turns_max: int = 500, milliseconds: int = 15_000) -> list[Step]:
        """Plan and carry out until nothing is left to do; return all steps."""
        done: list[Step] = []
        quiet = 0
        for _ in range(turns_max):
            plan = self.decide()
            self.apply(plan.steps)
            done += plan.steps
            self.advance(milliseconds=milliseconds)
            quiet = 0 if plan.steps or plan.status is Status.WORKING else quiet + 1
            if quiet == 2:
                return done
        raise AssertionError(f"no end after {turns_max} turns and {len(done)} steps; the last: {done[-1]}")

    def replicas(self, shard_id: int) -> list[int]:
        return ids(self.shards[shard_id].replicas)

    def counts(self) -> dict[int, int]:
        return {
            number: sum(broker.key in shard.replicas for shard in self.shards.values())
            for number, broker in self.brokers.items()
        }

    def is_target(self, broker_id: int) -> bool:
        broker = self.brokers[broker_id]
        is_well = broker.is_live and broker.is_ready
        return is_well and broker.presence is Presence.ACTIVE and broker.drain is Drain.NONE

    def _figures(self, shard: ModelledShard) -> ShardView:
        learners = tuple(replica for replica in shard.replicas if replica not in shard.voters)
        return ShardView(
            size=shard.size,
            cpu=shard.cpu,
            membership=Membership(shard.voters, learners),
            in_sync=frozenset(voter.broker_id for voter in shard.voters if self._is_in_sync(shard, voter)),
            behind={replica.broker_id: shard.size - copied for replica, copied in shard.copied.items()},
            leader=None if shard.leader is None else BrokerId(shard.leader),
            figures_at_ms=self.now_ms if shard.measured_at_ms is None else shard.measured_at_ms,
        )

    def _is_live(self, replica: ReplicaKey) -> bool:
        broker = self.brokers[replica.broker_id]
        return broker.is_live and broker.key == replica

    def _is_in_sync(self, shard: ModelledShard, member: ReplicaKey) -> bool:
        return self.brokers[member.broker_id].is_live and member.broker_id not in shard.late

    def _elect(self) -> None:
        for number, shard in self.shards.items():
            self._lead(shard)
            self._changed(number)

    def _lead(self, shard: ModelledShard) -> None:
        """Let the first planned replica that votes and is live lead, if a majority of the voters is live."""
        live = [voter for voter in shard.voters if self._is_live(voter)]
        able = [replica for replica in (*shard.replicas, *shard.voters) if replica in live]
        has_majority = len(live) > len(shard.voters) // 2
        shard.leader = able[0].broker_id if able and has_majority else None

    def _changed(self, shard_id: int) -> None:
        self.index.changed([ShardId(shard_id)])
