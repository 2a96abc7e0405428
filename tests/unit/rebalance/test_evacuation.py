"""DISK and DRAIN: replicas leave disks that are too full, and brokers that are drained."""

import pytest

from tests.unit.rebalance.modelled_cluster import GIB, ModelledCluster, ids
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason


def full_cluster(*sizes: int, other: int) -> ModelledCluster:
    """Return a cluster of four brokers; broker 1 has replicas of these sizes, in GiB, and other bytes."""
    cluster = ModelledCluster([None] * 4)
    for size in sizes:
        cluster.add(2, 3, 1, size=size * GIB)
    cluster.other_bytes[1] = other * GIB
    return cluster


@pytest.mark.parametrize(
    ("sizes", "other", "moved"),
    [
        ((10, 10), 60, []),  # exactly 80 %
        ((2, 4, 9), 68, [2]),  # 83 %: 4 GiB suffice
        ((2, 4, 9), 74, [3]),  # 89 %: 9 GiB suffice
        ((2, 4, 9), 77, [3, 2]),  # 92 %: none suffices alone; the largest goes, then the one that suffices
    ],
)
def test_a_full_disk_is_relieved_of_the_replica_that_suffices(
    sizes: tuple[int, ...], other: int, moved: list[int]
) -> None:
    """The fewest shards move, and no more bytes than needed."""
    cluster = full_cluster(*sizes, other=other)

    steps = cluster.decide().steps

    assert [(shard_id, Reason.DISK) for shard_id in moved] == [(step.shard_id, step.reason) for step in steps]
    assert all([2, 3, 4] == ids(step.replicas) for step in steps)


def test_disk_counts_and_rates_are_taken_after_all_steps_under_way_and_planned_before() -> None:
    """A disk that a replica is leaving is full until the copy ends: it must not be emptied further meanwhile."""
    cluster = full_cluster(2, 4, 9, other=74)
    cluster.apply(cluster.decide().steps)
    cluster.advance(copy=GIB)
    assert 89 * GIB == cluster.disk_used(1)

    assert [] == [*cluster.decide().steps]


def test_a_disk_that_gets_a_replica_is_relieved_before_it_is_full() -> None:
    """The bytes on their way to a disk count as used."""
    cluster = full_cluster(5, other=73)
    cluster.add(2, 3, 4, size=6 * GIB)
    cluster.plan(2, 2, 3, 1, reason=Reason.USER)

    (step,) = cluster.decide().steps

    assert (1, Reason.DISK) == (step.shard_id, step.reason)
    assert "the disk of broker 1 is 84 % full, more than 80 %, by 4.00 GiB" in step.sentence


def test_the_disk_of_a_silent_broker_is_left_alone() -> None:
    """Its figures are old, and nothing moves while it may come back."""
    cluster = full_cluster(10, other=85)
    cluster.lose(1, Presence.SILENT, 61_000)

    plan = cluster.decide()

    assert ((), ()) == (plan.steps, plan.refusals)


def test_a_full_disk_without_another_place_is_a_refusal() -> None:
    """The sentence says which disk is full, and why nothing moves."""
    cluster = full_cluster(10, other=85)
    cluster.other_bytes[4] = 75 * GIB

    plan = cluster.decide()

    assert [] == [*plan.steps]
    assert "the disk of broker 1 is 95 % full" in plan.refusals[0].sentence


def test_a_drained_broker_is_emptied() -> None:
    """Each of its replicas moves, in its place: where it was the preferred leader, the newcomer becomes that."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.add(2, 1, 3)
    cluster.add(2, 3, 4)
    cluster.set(1, drain=Drain.ALL)

    steps = cluster.decide().steps

    assert [[5, 2, 3], [2, 4, 3]] == [ids(step.replicas) for step in steps]
    assert {Reason.DRAIN} == {step.reason for step in steps}
    assert "broker 1 is drained" in steps[0].sentence


def test_a_drain_waits_for_a_broker_on_the_best_rack() -> None:
    """
    It receives as many copies as it may.  On another rack, the replica would stand beside one of its shard, and RACK
    would soon copy it once more.
    """
    cluster = ModelledCluster(["a", "a", "b", "b", "c"])
    for leader, other in [(1, 5), (5, 1)] * 3:
        cluster.add(leader, 3, other)
    cluster.set(3, drain=Drain.ALL)

    plan = cluster.decide()
    done = cluster.run()

    assert [4] * 4 == [step.replicas[1].broker_id for step in plan.steps]
    assert ["2 shards more"] == [refusal.sentence[:13] for refusal in plan.refusals]
    assert [(Reason.DRAIN, 4)] * 6 == [(step.reason, step.replicas[1].broker_id) for step in done]


@pytest.mark.parametrize(("rack", "goal"), [("x", []), ("y", [[4, 2]])])
def test_a_drain_waits_only_for_a_better_rack(rack: str, goal: list[list[int]]) -> None:
    """Brokers 1 and 3 receive as many copies as they may; broker 4 could take the replica, and is on rack y."""
    cluster = ModelledCluster([rack, "y", "y", "y", "x"])
    for _ in range(4):
        cluster.plan(cluster.add(2), 1, reason=Reason.COUNT)
        cluster.plan(cluster.add(4), 3, reason=Reason.COUNT)
    for _ in range(5):
        cluster.add(4)
    drained = cluster.add(5, 2)
    cluster.set(5, drain=Drain.ALL)

    steps = cluster.decide().steps

    assert goal == [ids(step.replicas) for step in steps if step.shard_id == drained]


def test_a_full_disk_does_not_wait_for_the_best_rack() -> None:
    """It would soon refuse writes."""
    cluster = ModelledCluster(["a", "a", "b", "b", "c"])
    for leader, other in [(1, 5), (5, 1)] * 3:
        cluster.add(leader, 3, other)
    cluster.other_bytes[3] = 80 * GIB

    steps = cluster.decide().steps

    assert [2, 2, 4, 4, 4, 4] == sorted(step.replicas[1].broker_id for step in steps)
    assert {Reason.DISK} == {step.reason for step in steps}


def test_a_full_disk_of_a_drained_broker_is_emptied_by_the_drain() -> None:
    """All replicas leave it anyway, and in its own order."""
    cluster = full_cluster(2, 4, 9, other=77)
    cluster.set(1, drain=Drain.ALL)

    assert [Reason.DRAIN] * 3 == [step.reason for step in cluster.decide().steps]


def test_a_broker_in_maintenance_keeps_its_replicas() -> None:
    """Only its leaders leave it, and those by transfers that change no plan."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.set(1, drain=Drain.LEADERS)

    assert [] == [*cluster.decide().steps]


@pytest.mark.parametrize(
    "state",
    [
        {"drain": Drain.ALL},
        {"drain": Drain.LEADERS},
        {"is_ready": False},
        {"is_live": False, "heard_by": 0},
        {"presence": Presence.SILENT},
        {"presence": Presence.GONE},
        {"disk_total": None},
    ],
)
def test_draining_and_unready_brokers_are_no_targets(state: dict[str, object]) -> None:
    """Nothing moves to a broker that is to be emptied or stopped, that does not serve, or whose disk is unknown."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.set(1, drain=Drain.ALL)
    cluster.set(4, **state)

    assert [[5, 2, 3]] == [ids(step.replicas) for step in cluster.decide().steps]


def test_one_replica_of_a_shard_moves_at_a_time() -> None:
    """With two drained brokers, a shard leaves one after the other: each copy that replaces a voter is a risk."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.set(1, drain=Drain.ALL)
    cluster.set(2, drain=Drain.ALL)

    first = cluster.decide().steps
    cluster.apply(first)
    meanwhile = cluster.decide().steps
    cluster.advance()
    second = cluster.decide().steps

    assert ([[4, 2, 3]], [], [[4, 5, 3]]) == tuple(
        [ids(s.replicas) for s in steps] for steps in (first, meanwhile, second)
    )


def test_a_shard_with_a_silent_member_waits() -> None:
    """While another replica is away, a move would leave the shard with fewer failures to survive."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.set(1, drain=Drain.ALL)
    cluster.lose(3, Presence.SILENT, 70_000)

    plan = cluster.decide()

    assert [] == [*plan.steps]
    assert "broker 3 silent for 1 min 10 s, heard by 0 of 4; its other replicas stay" in plan.refusals[0].sentence
