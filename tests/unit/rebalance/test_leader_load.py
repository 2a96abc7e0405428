"""LEADER: the busiest broker leads fewer shards."""

from dataclasses import replace

from tests.unit.rebalance.modelled_cluster import UNBALANCED, ModelledCluster, ids
from tidemill.model.broker_state import Drain
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.rebalance.plan import Step

MINUTE_MS = 60_000


def busy(*costs: int, replicas: tuple[int, ...] = (1, 2, 3)) -> ModelledCluster:
    """Return a cluster whose broker 1 leads shards that cost so much CPU, in per mille of a core."""
    cluster = ModelledCluster([None] * 3)
    for cost in costs:
        cluster.add(*replicas, cpu=cost)
    return cluster


def leader_steps(cluster: ModelledCluster) -> list[Step]:
    return [step for step in cluster.decide().steps if step.reason is Reason.LEADER]


def test_a_busy_broker_lets_another_replica_lead() -> None:
    """The step changes only the order, moves no byte, and says what it gains."""
    cluster = busy(300, 400)

    (step,) = leader_steps(cluster)

    assert (2, [2, 1, 3], 0) == (step.shard_id, ids(step.replicas), step.size)
    assert step.sentence == (
        "shard 2 → led by broker 2: broker 1 is at 70 %, broker 2 at 0 %; the shard takes 40 %, and all transfers "
        "together gain 30 %"
    )


def test_a_small_gain_is_not_worth_an_interruption() -> None:
    """All transfers together must relieve the busiest broker by 10 points."""
    small, enough = busy(*[16] * 10), busy(*[17] * 10)

    assert (0, 1) == (len(leader_steps(small)), len(leader_steps(enough)))


def test_a_transfer_never_makes_another_broker_busier_than_the_busiest() -> None:
    """One hot shard stays where it is: wherever it is led, that broker is as busy."""
    cluster = busy(800)
    cluster.set(2, cpu=100)
    cluster.set(3, cpu=100)

    assert [] == leader_steps(cluster)


def test_only_in_sync_replicas_on_brokers_that_can_lead_are_chosen() -> None:
    """A replica that lags would interrupt the shard for long, and a drained broker gives up its leaders."""
    cluster = busy(300, 400)
    cluster.shards[2].late = frozenset((2,))
    assert [3] == [step.replicas[0].broker_id for step in leader_steps(cluster)]
    cluster.shards[2].late = frozenset()
    cluster.set(2, drain=Drain.LEADERS)
    assert [3] == [step.replicas[0].broker_id for step in leader_steps(cluster)]

    cluster.set(3, is_ready=False)
    assert [] == leader_steps(cluster)


def test_a_shard_that_a_user_placed_keeps_its_leader() -> None:
    """No later reason undoes what a user chose."""
    cluster = busy(300)
    cluster.add(1, 2, 3, cpu=400, reason=Reason.USER)
    cluster.add(1, 2, 3, cpu=400, reason=Reason.USER)

    assert [1] == [step.shard_id for step in leader_steps(cluster)]


def test_few_leaders_leave_a_broker_within_a_minute() -> None:
    """A tenth of its leaders may leave: clients of the others are not interrupted at the same time."""
    cluster = busy(*[20] * 30)

    moved = []
    for _ in range(5):
        steps = leader_steps(cluster)
        moved.append(len(steps))
        cluster.apply(steps)
        cluster.advance(milliseconds=25_000)

    (refusal,) = busy(*[20] * 30).decide().refusals
    assert refusal.sentence.endswith(" more leaders of broker 1 must wait: 3 of its 30 may leave it within a minute")
    assert [3, 0, 0, 0, 2] == moved  # the second look sees the transfers, and a minute later there are 27 leaders


def test_leaders_balance_only_on_figures_newer_than_the_last_step() -> None:
    """Older averages still have the load that has left: acting on them overshoots, and moves it back."""
    cluster = busy(*[100] * 6)
    cluster.policy = replace(UNBALANCED, leaders_percent=100)
    cluster.apply(leader_steps(cluster))
    cluster.advance()
    cluster.decide()  # sees that the steps have ended
    cluster.set(1, cpu=400)  # an average that lags behind
    cluster.advance(milliseconds=9_999)
    plan = cluster.decide()
    cluster.advance(milliseconds=1)
    later = leader_steps(cluster)

    assert [] == [*plan.steps]
    assert "broker 1 is the busiest; the figures of broker 1 are from before 10 s after its last step" in (
        plan.refusals[0].sentence
    )
    assert later


def test_a_shard_is_not_led_elsewhere_for_what_was_measured_before_its_last_step() -> None:
    """
    Its leader reports it again only when the figure has changed by a quarter, or after a minute, although the figures
    of the brokers are newer.
    """
    cluster = ModelledCluster([None] * 4)
    for cost in (300, 400):
        cluster.add(1, 2, 3, cpu=cost)
    cluster.decide()
    for shard_id in cluster.shards:
        cluster.plan(shard_id, 1, 2, 4, reason=Reason.COUNT)
    cluster.decide()  # sees that the steps have begun
    cluster.advance()
    cluster.decide()  # sees that they have ended
    ended_at_ms = cluster.now_ms
    cluster.advance(milliseconds=20_000)
    for shard_id, shard in cluster.shards.items():
        shard.measured_at_ms = ended_at_ms + 9_999
        cluster.index.changed([ShardId(shard_id)])
    early = leader_steps(cluster)
    cluster.shards[2].measured_at_ms = ended_at_ms + 10_000
    cluster.index.changed([ShardId(2)])

    assert ([], [2]) == (early, [step.shard_id for step in leader_steps(cluster)])


def test_transfers_that_are_planned_count_as_done() -> None:
    """Until a leader is transferred, its load is measured at the old broker, and must not make others move, too."""
    cluster = busy(200, 200, 100)
    cluster.policy = replace(UNBALANCED, leaders_percent=100)
    cluster.set(3, cpu=400)
    steps = leader_steps(cluster)
    cluster.apply(steps)

    assert [1] == [step.shard_id for step in steps]
    assert [] == leader_steps(cluster)


def test_a_shard_keeps_its_leader_for_ten_minutes() -> None:
    """A shard whose load swings does not take its clients along each time."""
    cluster = busy(400, 300)
    cluster.apply(leader_steps(cluster))
    cluster.advance()
    cluster.decide()
    cluster.set(2, cpu=600)

    cluster.advance(milliseconds=8 * MINUTE_MS)
    assert [] == leader_steps(cluster)
    cluster.advance(milliseconds=2 * MINUTE_MS)
    assert [1] == [step.shard_id for step in leader_steps(cluster)]
