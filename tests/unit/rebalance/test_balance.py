"""COUNT and BYTES: brokers carry equal numbers of replicas, and of bytes."""

from dataclasses import replace

import pytest

from tests.unit.rebalance.modelled_cluster import GIB, HOUR_MS, ModelledCluster, ids
from tidemill.model.broker_state import Drain
from tidemill.model.move_reason import Reason
from tidemill.rebalance.policy import Policy

COUNT = Policy(bytes_floor=1 << 60)
BYTES = Policy(count_floor=10)
MIB = 1 << 20


def uneven(*counts: int, policy: Policy = COUNT, size: int = GIB) -> ModelledCluster:
    """Return a cluster whose brokers have so many shards of one replica each."""
    cluster = ModelledCluster([None] * len(counts), policy)
    for broker_id, count in enumerate(counts, 1):
        for _ in range(count):
            cluster.add(broker_id, size=size)
    return cluster


@pytest.mark.parametrize(
    ("counts", "is_begun"),
    [
        ((10, 10, 10), False),
        ((12, 10, 8), False),  # 20 %, but only two shards
        ((13, 10, 7), True),
        ((33, 30, 27), False),  # three shards, but only 10 %
        ((34, 30, 26), True),
        ((0, 5, 5), True),  # a new broker
    ],
)
def test_count_begins_when_a_broker_is_more_than_10_percent_and_2_shards_off_the_mean(
    counts: tuple[int, ...], is_begun: bool
) -> None:
    """Small differences are not worth a move, and come and go with topics."""
    cluster = uneven(*counts)

    assert is_begun == bool(cluster.decide().steps)


def test_count_goes_on_to_5_percent() -> None:
    """Ending where it begins, it would begin again with the next shard."""
    cluster = uneven(80, 60, 40, size=MIB)

    cluster.run()

    assert all(57 <= count <= 63 for count in cluster.counts().values()), cluster.counts()
    for _ in range(4):
        cluster.add(1, size=MIB)
    cluster.advance(milliseconds=2 * HOUR_MS)
    assert 1.05 < cluster.counts()[1] / (184 / 3) < 1.1
    assert [] == [*cluster.decide().steps]


def test_a_new_broker_gets_the_replicas_of_the_fullest() -> None:
    """The sentence says what the two brokers carry, and what is carried on average."""
    cluster = uneven(8, 6, 0, size=MIB)

    step = cluster.decide().steps[0]

    assert ([3], Reason.COUNT) == (ids(step.replicas), step.reason)
    assert step.sentence == (
        "shard 1 → broker 3: broker 1 carries 8 replicas, broker 3 0 replicas, 5 replicas on average; 1.00 MiB"
    )


def test_balance_goes_on_among_the_rest_while_a_broker_is_drained() -> None:
    """A drain may last for hours, and neither hides nor causes an imbalance of the others."""
    cluster = uneven(9, 3, 30, 3)
    cluster.set(3, drain=Drain.LEADERS)

    steps = cluster.decide().steps

    assert steps
    assert all(step.shard_id <= 9 and step.replicas[0].broker_id in (2, 4) for step in steps)


def test_a_shard_moves_for_balance_once_an_hour() -> None:
    """A shard whose broker is off the mean again soon is not carried to and fro."""
    cluster = uneven(6, 0, 0)
    cluster.run()
    moved = [number for number, shard in cluster.shards.items() if shard.reason is Reason.COUNT]
    assert 3 == len(moved)
    for _ in range(9):
        cluster.add(2, reason=Reason.USER)

    soon = cluster.decide()
    cluster.advance(milliseconds=HOUR_MS)
    later = cluster.decide()

    assert [] == [*soon.steps]
    assert "moved within the last 1 h" in soon.refusals[0].sentence
    assert [1, 3] == sorted(step.shard_id for step in later.steps)  # those on broker 2


def test_a_new_controller_does_not_know_when_a_shard_moved() -> None:
    """It takes a shard that COUNT has placed for one that has just moved."""
    cluster = ModelledCluster([None] * 2, COUNT, began_at_ms=10 * HOUR_MS - 20_000)
    for _ in range(6):
        cluster.add(1, reason=Reason.COUNT)

    soon = cluster.decide()
    cluster.advance(milliseconds=HOUR_MS)

    assert [] == [*soon.steps]
    assert cluster.decide().steps


def test_balance_uses_only_figures_newer_than_the_last_step() -> None:
    """Figures from before the end of a step, and 10 s after it, are of another placement."""
    cluster = uneven(30, 0, 0)
    cluster.apply(cluster.decide().steps)
    cluster.advance()
    assert [] == [*cluster.decide().steps]

    cluster.advance(milliseconds=9_999)
    plan = cluster.decide()
    cluster.advance(milliseconds=1)

    assert [] == [*plan.steps]
    assert "the figures of broker 1 are from before 10 s after its last step ended" in plan.refusals[0].sentence
    assert cluster.decide().steps


@pytest.mark.parametrize(
    ("reported_at_ms", "why"),
    [
        (0, "broker 3 has not reported any figures to this controller yet"),
        (10 * HOUR_MS - 3_000, "the figures of broker 3 are from before 10 s after this controller began, 12 s ago"),
    ],
)
def test_a_broker_that_has_just_started_is_said_to_have_no_figures_yet(reported_at_ms: int, why: str) -> None:
    """It has had no step, so that its figures cannot be from before the end of one."""
    cluster = uneven(30, 30, 0)
    cluster.index.began_at_ms = cluster.now_ms - 12_000
    cluster.reported_at_ms[3] = reported_at_ms

    plan = cluster.decide()

    assert [] == [*plan.steps]
    assert why in plan.refusals[0].sentence


def test_counts_are_taken_after_the_steps_under_way() -> None:
    """While four copies are on their way to the new broker, the plan has them there already."""
    cluster = uneven(7, 7, 0, size=GIB)
    steps = cluster.decide().steps
    cluster.apply(steps)
    cluster.now_ms += 20_000

    assert 4 == len(steps)
    assert [] == [*cluster.decide().steps]


def test_bytes_move_where_few_are() -> None:
    """The replica that brings both brokers nearest to each other moves."""
    cluster = ModelledCluster([None] * 2, BYTES)
    for size in (30, 12, 2):
        cluster.add(1, size=size * GIB)
    cluster.add(2, size=20 * GIB)

    (step,) = cluster.decide().steps

    assert (2, [2], Reason.BYTES, 12 * GIB) == (step.shard_id, ids(step.replicas), step.reason, step.size)
    assert "broker 1 carries 44.0 GiB, broker 2 20.0 GiB, 32.0 GiB on average" in step.sentence


def test_bytes_begin_beyond_1_gib() -> None:
    """In an almost empty cluster, large shares are few bytes."""
    cluster = ModelledCluster([None] * 2, BYTES)
    for _ in range(4):
        cluster.add(1, size=512 * MIB)

    assert [] == [*cluster.decide().steps]
    cluster.add(1, size=MIB)
    assert cluster.decide().steps


def test_a_missing_figure_refuses_the_balance_of_bytes() -> None:
    """A broker with a shard of unknown size neither gives nor takes: its sum would count that shard as zero."""
    cluster = ModelledCluster([None] * 3, BYTES)
    for size in (20, 20, 2):
        cluster.add(1, size=size * GIB)
    cluster.forget(cluster.add(2, size=50 * GIB))

    plan = cluster.decide()

    assert all(3 == step.replicas[0].broker_id for step in plan.steps)
    assert "the size is not known of 1 replica on broker 2;" in plan.refusals[0].sentence


def test_bytes_leave_the_counts_where_count_does_not_begin() -> None:
    """COUNT, an earlier reason, would move them back."""
    cluster = ModelledCluster([None] * 2, Policy(count_floor=2))
    for _ in range(10):
        cluster.add(1, size=5 * GIB)
        cluster.add(2, size=50 * MIB)

    steps = cluster.run()

    assert {Reason.BYTES} == {step.reason for step in steps}
    assert {1: 8, 2: 12} == cluster.counts()


def test_balance_keeps_racks() -> None:
    """A replica does not move to a rack that has another replica of its shard, unless it leaves such a rack."""
    cluster = ModelledCluster(["a", "b", "b"], COUNT)
    for _ in range(8):
        cluster.add(1, 2)

    steps = cluster.run()

    assert {1: 8, 2: 5, 3: 3} == cluster.counts()
    assert all(1 == replica for replica in (ids(step.replicas)[0] for step in steps))


def test_balance_fills_no_disk() -> None:
    """The limit of targets holds for balance, too."""
    cluster = uneven(9, 9, 0, size=10 * GIB)
    cluster.other_bytes[3] = 55 * GIB
    cluster.policy = replace(COUNT, disk_percent_max=90)

    cluster.run()

    assert 3 == cluster.counts()[3]


def test_balance_leaves_alone_what_a_user_chose() -> None:
    """No later reason undoes USER."""
    cluster = ModelledCluster([None] * 2, COUNT)
    for _ in range(9):
        cluster.add(1, reason=Reason.USER)

    plan = cluster.decide()

    assert [] == [*plan.steps]
    assert "chosen by a user (9)" in plan.refusals[0].sentence
    assert plan.refusals[0].is_wish
