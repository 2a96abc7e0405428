"""Laws of the planner: random clusters with faults, planned and carried out until nothing is left to do."""

from collections import Counter
from random import Random

import pytest

from tests.unit.rebalance.modelled_cluster import GIB, HOUR_MS, ModelledCluster, ids
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.rebalance.plan import Plan, Status, Step
from tidemill.rebalance.policy import Policy

SEEDS = range(30)
TURNS_WITH_FAULTS = 60
TURNS_MAX = 500
TURN_MS = 20_000
RACKS = ([None], ["a", "b"], ["a", "b", "c"], ["a", "b", None])


class LawfulCluster(ModelledCluster):
    """A modelled cluster that checks every step of every plan."""

    def check(self, plan: Plan) -> None:
        assert len({step.shard_id for step in plan.steps}) == len(plan.steps), "a shard has two steps"
        for step in plan.steps:
            self._check_step(step)
        self._check_limits(plan)
        for broker_id, coming in self._coming(plan).items():
            limit = self.brokers[broker_id].disk_total or 0
            assert self.disk_used(broker_id) + coming <= 0.8 * limit, f"broker {broker_id} gets too full"

    def _check_step(self, step: Step) -> None:
        shard = self.shards[step.shard_id]
        newcomers = [replica for replica in step.replicas if replica not in shard.replicas]
        leavers = [replica for replica in shard.replicas if replica not in step.replicas]
        assert len(step.replicas) == len(shard.replicas) == len({*step.replicas}), step
        assert step.sentence.startswith(f"shard {step.shard_id} → "), step
        assert all(self.is_target(replica.broker_id) for replica in newcomers), step
        live = [voter for voter in shard.voters if self.brokers[voter.broker_id].is_live]
        assert len(live) > len(shard.voters) // 2, step
        is_under_way = {*shard.voters} != {*shard.replicas}
        if step.reason is not Reason.REPLACE:
            assert not is_under_way, f"a second step: {step}"
            assert len(newcomers) == len(leavers) == (step.reason is not Reason.LEADER), f"several at a time: {step}"
        if step.reason not in (Reason.REPLACE, Reason.LEADER):
            assert all(self.brokers[r.broker_id].is_live for r in step.replicas), f"names a dead member: {step}"
        if step.reason > Reason.USER or step.reason is Reason.RACK:
            assert shard.reason is not Reason.USER, f"undoes a user's choice: {step}"
        if step.reason > Reason.RACK:
            assert unevenness(self, step.replicas) <= unevenness(self, shard.replicas), f"undoes RACK: {step}"
        if step.reason is Reason.RACK:
            assert unevenness(self, step.replicas) < unevenness(self, shard.replicas), step

    def _check_limits(self, plan: Plan) -> None:
        goals = {number: shard.replicas for number, shard in self.shards.items()}
        goals |= {step.shard_id: step.replicas for step in plan.steps}
        incoming: Counter[int] = Counter()
        outgoing: Counter[int] = Counter()
        for number, replicas in goals.items():
            shard = self.shards[number]
            newcomers = [replica for replica in replicas if replica not in shard.voters]
            if newcomers and shard.leader is not None:  # nothing is copied without a majority
                incoming.update(ids(newcomers))
                outgoing[shard.leader] += 1
        for step in plan.steps:
            shard = self.shards[step.shard_id]
            new = [r for r in step.replicas if r not in shard.replicas and r not in shard.voters]
            assert all(incoming[replica.broker_id] <= 4 for replica in new), f"{step}: {incoming}"
            if new and {*shard.voters} == {*shard.replicas} and shard.leader is not None:
                assert outgoing[shard.leader] <= 4, f"{step}: {outgoing}"

    def _coming(self, plan: Plan) -> dict[int, int]:
        """Return the bytes that the brokers to which the plan moves replicas will get, of all copies."""
        goals = {step.shard_id: step.replicas for step in plan.steps}
        new: set[int] = set()
        coming: Counter[int] = Counter()
        for number, shard in self.shards.items():
            for replica in goals.get(number, shard.replicas):
                if replica not in shard.voters:
                    coming[replica.broker_id] += shard.size - shard.copied.get(replica, 0)
                    if replica not in shard.replicas:
                        new.add(replica.broker_id)
        return {broker_id: coming[broker_id] for broker_id in new}

    def turn(self, *, copy: int, milliseconds: int = TURN_MS) -> Plan:
        plan = self.decide()
        self.check(plan)
        self.apply(plan.steps)
        self.advance(copy=copy, milliseconds=milliseconds)
        return plan

    def rest(self) -> Plan:
        """Plan and carry out until nothing has moved for more than an hour, so that no pause hides a step."""
        quiet = 0
        for _ in range(TURNS_MAX):
            before = [(shard.replicas, shard.voters) for shard in self.shards.values()]
            plan = self.turn(copy=GIB, milliseconds=TURN_MS if quiet == 0 else HOUR_MS // 4)
            is_same = before == [(shard.replicas, shard.voters) for shard in self.shards.values()]
            quiet = quiet + 1 if is_same else 0
            if quiet == 7:
                return plan
        raise AssertionError(f"no rest: {plan}")


def unevenness(cluster: ModelledCluster, replicas: tuple[ReplicaKey, ...]) -> int:
    """Return how unevenly replicas are on racks: pairs that share one."""
    on_rack = Counter(cluster.brokers[replica.broker_id].rack for replica in replicas)
    return sum(count * (count - 1) // 2 for count in on_rack.values())


def drawn_cluster(random: Random) -> LawfulCluster:
    racks = random.choice(RACKS)
    brokers = random.randint(3, 9)
    cluster = LawfulCluster([racks[number % len(racks)] for number in range(brokers)], Policy())
    replication = random.choice([1, 2, 3, 3, 3])
    for _ in range(random.randint(1, 40)):
        replicas = random.sample(range(1, brokers + 1), replication)
        reason = Reason.USER if random.random() < 0.1 else Reason.PLACED
        cluster.add(
            *replicas, size=random.choice([0, 1 << 20, GIB // 4, GIB]), cpu=random.randint(0, 60), reason=reason
        )
    for broker_id in cluster.brokers:
        if random.random() < 0.3:
            cluster.other_bytes[broker_id] = random.randint(0, 90) * GIB
    return cluster


def strike(cluster: ModelledCluster, random: Random) -> None:
    """Change the state of one broker."""
    broker_id = random.choice([*cluster.brokers])
    broker = cluster.brokers[broker_id]
    match random.randrange(6):
        case 0:
            cluster.lose(broker_id, random.choice([Presence.SILENT, Presence.GONE]))
        case 1 | 2:
            cluster.bring_back(broker_id)
        case 3:
            cluster.set(broker_id, drain=random.choice([*Drain]))
        case 4:
            cluster.set(broker_id, is_ready=broker.is_live and random.random() < 0.7)
        case _ if cluster.shards:
            shard_id = random.choice([*cluster.shards])
            wanted = random.sample([*cluster.brokers], len(cluster.shards[shard_id].replicas))
            if all(cluster.is_target(broker_id) and not cluster.other_bytes.get(broker_id) for broker_id in wanted):
                cluster.plan(shard_id, *wanted, reason=Reason.USER)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cluster_comes_to_rest_and_every_step_keeps_the_rules(seed: int) -> None:
    """Whatever has happened, plans that are carried out reach a state in which nothing is planned any more."""
    random = Random(seed)
    cluster = drawn_cluster(random)
    for _ in range(random.randint(0, TURNS_WITH_FAULTS)):
        if random.random() < 0.4:
            strike(cluster, random)
        cluster.turn(copy=random.choice([0, GIB // 8, GIB]))
    is_mended = random.random() < 0.5
    if is_mended:
        for broker_id in cluster.brokers:
            cluster.bring_back(broker_id)

    plan = cluster.rest()

    assert plan.status in (Status.IDLE, Status.STALLED) or cluster.index.under_way
    if is_mended:
        assert all({*shard.voters} == {*shard.replicas} for shard in cluster.shards.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_with_room_is_repaired_entirely(seed: int) -> None:
    """A broker is gone and another drained; with brokers and disks enough, neither carries anything in the end."""
    random = Random(seed)
    cluster = LawfulCluster([random.choice(["a", "b", "c"]) for _ in range(8)], Policy())
    for _ in range(random.randint(1, 60)):
        cluster.add(*random.sample(range(1, 9), 3), size=random.choice([1 << 20, GIB // 4]), cpu=random.randint(0, 9))
    lost, drained = random.sample(range(1, 9), 2)
    cluster.set(drained, drain=Drain.ALL)
    cluster.lose(lost)

    cluster.rest()

    counts = cluster.counts()
    rest = {broker_id: count for broker_id, count in counts.items() if broker_id not in (lost, drained)}
    mean = sum(rest.values()) / len(rest)
    assert (0, 0) == (counts[lost], counts[drained])
    assert all(
        unevenness(cluster, s.replicas) <= best_unevenness(cluster, len(s.replicas)) for s in cluster.shards.values()
    )
    assert all(abs(count - mean) <= max(2, mean / 10) for count in rest.values()) or has_uneven_racks(cluster)


def best_unevenness(cluster: ModelledCluster, count: int) -> int:
    """Return how uneven `count` replicas must be at least on the racks with brokers that take replicas."""
    free = Counter(broker.rack for broker_id, broker in cluster.brokers.items() if cluster.is_target(broker_id))
    on_rack: Counter[str | None] = Counter()
    for _ in range(count):
        open_racks = [rack for rack in free if on_rack[rack] < free[rack]]
        on_rack[min(open_racks, key=lambda rack: on_rack[rack])] += 1
    return sum(taken * (taken - 1) // 2 for taken in on_rack.values())


def has_uneven_racks(cluster: ModelledCluster) -> bool:
    """Return whether racks have unlike numbers of brokers, so that even racks mean uneven brokers."""
    free = Counter(broker.rack for broker_id, broker in cluster.brokers.items() if cluster.is_target(broker_id))
    return len({*free.values()}) > 1
