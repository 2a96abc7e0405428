"""REPLACE: replicas of brokers that are gone, and goals that cannot be reached."""

from dataclasses import replace

import pytest

from tests.unit.rebalance.modelled_cluster import GIB, UNBALANCED, ModelledCluster, ids
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.rebalance.plan import Plan, Refusal


def of_shards(plan: Plan) -> list[Refusal]:
    return [refusal for refusal in plan.refusals if refusal.what.startswith("shard")]


def test_a_replica_of_a_broker_that_is_gone_gets_a_place_elsewhere() -> None:
    """The newcomer takes the place of the lost replica, and the sentence says why, how many bytes, and where."""
    cluster = ModelledCluster(["a", "b", "c", "a", "b", "c", "b"])
    shard_id = cluster.add(1, 2, 3, size=12 * GIB + 400 * (1 << 20))
    for _ in range(2):
        cluster.add(4, 5, 6)
    cluster.lose(2)

    plan = cluster.decide()

    (step,) = plan.steps
    assert (shard_id, [1, 7, 3], Reason.REPLACE) == (step.shard_id, ids(step.replicas), step.reason)
    assert "shard 1 → broker 7: broker 2 silent for 5 min 2 s, heard by 0 of 6; 12.4 GiB; rack b" == step.sentence


def test_a_silent_broker_is_not_replaced() -> None:
    """A broker that is only silent may come back with everything: a move would copy it for nothing."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.lose(2, Presence.SILENT, 290_000)

    assert [] == [*cluster.decide().steps]


def test_a_silent_member_is_not_replaced_while_another_moves() -> None:
    """A step under way is no reason to replace a member that may come back."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.plan(1, 1, 2, 4, reason=Reason.DRAIN)
    cluster.lose(2, Presence.SILENT, 290_000)

    assert [] == [*cluster.decide().steps]


def test_a_shard_without_a_live_majority_is_a_refusal_that_names_who_must_come_back() -> None:
    """Members change by entries of the shard's log, which needs a majority: such a goal would never be reached."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    cluster.lose(3, Presence.SILENT, 70_000)

    plan = cluster.decide()

    assert [] == [*plan.steps]
    (refusal,) = plan.refusals
    assert "shard 1" == refusal.what
    assert "1 of 3 voters is live" in refusal.sentence
    assert "1 of brokers 2, 3 must come back" in refusal.sentence


def test_a_move_under_way_whose_shard_loses_its_majority_is_a_refusal_too() -> None:
    """The member that is lost was to leave anyway, so no goal names it; and the move would wait for it for ever."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2)
    cluster.plan(1, 1, 3, reason=Reason.COUNT)
    assert not cluster.decide().refusals

    cluster.lose(2)

    plan = cluster.decide()
    (refusal,) = plan.refusals
    assert ([], "shard 1", False) == ([*plan.steps], refusal.what, refusal.is_wish)  # although COUNT began the move
    assert refusal.sentence == (
        "shard 1: its move cannot go on; 1 of 2 voters is live, which is no majority; broker 2 must come back"
    )


@pytest.mark.parametrize(
    ("replaced", "way_out"),
    [
        (
            (2, 3),
            "1 of 3 voters is live, which is no majority; brokers 2, 3 have other data directories, so the shard ",
        ),
        ((2,), "1 of 3 voters is live, which is no majority; broker 3 must come back"),
    ],
)
def test_a_disk_that_was_replaced_is_not_waited_for(replaced: tuple[int, ...], way_out: str) -> None:
    """The broker is live: an operator who read that it must come back would look for what is wrong with it."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    cluster.lose(3)
    for broker_id in replaced:
        cluster.replace_directory(broker_id)

    (refusal,) = of_shards(cluster.decide())

    assert way_out in refusal.sentence
    assert (len(replaced) == 2) == refusal.sentence.endswith("so the shard cannot be served again")


def test_a_shard_without_figures_is_refused() -> None:
    """A size that is not known never counts as zero: the target could overflow."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.forget(1)
    cluster.lose(2)

    plan = cluster.decide()

    assert [] == [*plan.steps]
    assert "no leader has told" in plan.refusals[0].sentence


def test_a_gone_broker_that_is_live_again_keeps_what_was_not_replaced_yet() -> None:
    """
    Its shards may have waited for it without a majority.  It is ACTIVE in a moment; if it falls silent before, it is
    replaced as before.
    """
    cluster = ModelledCluster([None] * 3)
    cluster.add(2)
    cluster.add(2, 3)
    cluster.lose(2)
    assert [] == [*cluster.decide().steps]
    cluster.set(2, is_live=True, is_ready=True, heard_by=3, live_ms=5_000)

    plan = cluster.decide()

    assert ([], []) == ([*plan.steps], [*plan.refusals])


def test_a_shard_on_two_gone_brokers_is_refused_once() -> None:
    """The alert counts refusals, and an operator reads them."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    cluster.lose(3)

    plan = cluster.decide()

    assert ["shard 1"] == [refusal.what for refusal in plan.refusals]


def test_a_new_controller_names_who_must_come_back_as_well() -> None:
    """A shard that has lost its majority has no leader that could tell a new controller its members."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.add(3)
    cluster.forget(1)
    cluster.forget(2)
    cluster.lose(2)
    cluster.lose(3)

    sentences = [refusal.sentence for refusal in cluster.decide().refusals]

    told = "no leader has told its members and figures yet"
    assert any(
        f"{told}; 1 of 3 planned replicas is live, which is no majority; 1 of brokers 2, 3 must come back" in it
        for it in sentences
    )
    assert any(f"{told}; 0 of 1 planned replicas" in it and "; broker 3 must come back" in it for it in sentences)


def test_a_new_controller_names_the_former_members_of_a_move_that_must_come_back() -> None:
    """
    All brokers that the shard is planned on are well, and no broker that is gone carries it.  So nothing else says that
    the move waits for a member that was to leave.
    """
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2)
    cluster.plan(1, 1, 3, reason=Reason.COUNT)
    cluster.forget(1)
    cluster.lose(2)
    assert [] == of_shards(cluster.decide())  # the shard may only be electing a leader
    cluster.now_ms += cluster.policy.untold_after_ms

    plan = cluster.decide()

    (refusal,) = of_shards(plan)
    assert ([], "shard 1") == ([*plan.steps], refusal.what)
    assert refusal.sentence == (
        "shard 1: no leader has told its members and figures for 10 s; if its last move has not ended, 1 of 2 former "
        "replicas is live, which is no majority; broker 2 must come back"
    )


def test_a_former_member_that_was_removed_is_not_waited_for() -> None:
    """A broker is removed only when it is no member, so the last move has ended."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2)
    cluster.plan(1, 1, 3, reason=Reason.COUNT)
    cluster.forget(1)
    del cluster.brokers[2]
    cluster.decide()
    cluster.now_ms += cluster.policy.untold_after_ms

    (refusal,) = of_shards(cluster.decide())

    assert "former" not in refusal.sentence


def test_a_shard_that_never_has_a_leader_is_refused_with_the_way_out() -> None:
    """
    Its only replica was on a disk that an empty one has replaced: all brokers are well, and still it is never served.
    """
    cluster = ModelledCluster([None] * 3)
    cluster.add(1)
    cluster.add(2)
    cluster.forget(1)
    cluster.decide()
    cluster.now_ms += cluster.policy.untold_after_ms

    (refusal,) = of_shards(cluster.decide())

    assert "shard 1" == refusal.what
    assert refusal.sentence.endswith("a majority of its replicas may have lost its disk")


def test_a_shard_without_a_leader_that_lacks_a_replica_is_refused_once() -> None:
    """The refusal to replace the replica says all of it already."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.forget(1)
    cluster.lose(2)
    cluster.lose(3)
    cluster.decide()
    cluster.now_ms += cluster.policy.untold_after_ms

    assert ["shard 1"] == [refusal.what for refusal in of_shards(cluster.decide())]


def test_a_broker_that_is_live_again_before_the_newcomer_votes_gets_its_replica_back() -> None:
    """Copying the rest to the newcomer would be for nothing."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3, size=10 * GIB)
    cluster.plan(1, 1, 4, 3, reason=Reason.REPLACE, copied=4 * GIB)

    (step,) = cluster.decide().steps

    assert ([1, 2, 3], Reason.REPLACE, 0) == (ids(step.replicas), step.reason, step.size)
    assert "broker 2 is back" in step.sentence
    assert "broker 4 has 40 % of 10.0 GiB" in step.sentence


def test_a_newcomer_with_more_than_90_percent_stays() -> None:
    """A newcomer that has nearly everything votes soon, and the other goal would take as long."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3, size=100)
    cluster.plan(1, 1, 4, 3, reason=Reason.REPLACE, copied=91)
    assert [] == [*cluster.decide().steps]

    cluster.plan(1, 1, 4, 3, reason=Reason.REPLACE, copied=90)
    assert [[1, 2, 3]] == [ids(step.replicas) for step in cluster.decide().steps]


def test_a_move_for_another_reason_does_not_go_back() -> None:
    """The former member of a move was never away, and it is meant to leave."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.plan(1, 1, 4, 3, reason=Reason.USER)

    assert [] == [*cluster.decide().steps]


def test_a_dead_newcomer_gets_another_goal() -> None:
    """A goal with a newcomer that never votes would never be reached, and the shard would stay on its way."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    cluster.plan(1, 1, 4, 3, reason=Reason.REPLACE)
    cluster.lose(4, Presence.SILENT, 61_000)

    (step,) = cluster.decide().steps

    assert [1, 5, 3] == ids(step.replicas)


def test_a_newcomer_that_is_recorded_silent_and_is_live_again_is_kept() -> None:
    """
    It is copied to like any other, and is ACTIVE when it has been live for a while.  A user may have moved the shard
    there just then, and would see the move undone.
    """
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    cluster.plan(1, 1, 4, 3, reason=Reason.USER)
    cluster.lose(4, Presence.SILENT, 61_000)
    cluster.bring_back(4)
    cluster.set(4, presence=Presence.SILENT, live_ms=5_000)

    back = cluster.decide()
    cluster.lose(4, Presence.SILENT, 61_000)

    assert [] == [*back.steps]
    assert [[1, 2, 3]] == [ids(step.replicas) for step in cluster.decide().steps]


def test_no_goal_names_a_dead_member() -> None:
    """Two replicas that are gone are replaced in one goal; a member that dies while another moves is replaced too."""
    five = ModelledCluster([None] * 7)
    five.policy = replace(UNBALANCED, cluster_moves_max=1)
    five.add(1, 2, 3, 4, 5)
    five.lose(4)
    five.lose(5)
    moving = ModelledCluster([None] * 5)
    moving.add(1, 2, 3)
    moving.plan(1, 4, 2, 3, reason=Reason.COUNT)
    moving.lose(3)

    plan, (other,) = five.decide(), moving.decide().steps

    assert [[1, 2, 3, 6, 7]] == [ids(step.replicas) for step in plan.steps]
    assert () == plan.refusals  # both copies are one move of the shard
    assert [4, 2, 1] == ids(other.replicas)  # broker 1 has everything, and need not leave any more


def test_a_newcomer_whose_broker_is_drained_or_full_gets_another_goal() -> None:
    """Neither would ever carry the replica: one must not, and the other cannot."""
    drained, full = ModelledCluster([None] * 5), ModelledCluster([None] * 5)
    for cluster in (drained, full):
        cluster.add(1, 2, 3)
        cluster.lose(2)
        cluster.plan(1, 1, 4, 3, reason=Reason.REPLACE)
    drained.set(4, drain=Drain.ALL)
    full.other_bytes[4] = 96 * GIB

    goals = [[ids(step.replicas) for step in cluster.decide().steps] for cluster in (drained, full)]

    assert [[[1, 5, 3]], [[1, 5, 3]]] == goals


def test_a_goal_goes_back_to_a_member_that_is_still_there() -> None:
    """A move whose newcomer dies is cancelled: its source has everything, however much that broker carries."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3)
    for _ in range(5):
        cluster.add(1)
    cluster.plan(1, 4, 2, 3, reason=Reason.COUNT)
    cluster.lose(4, Presence.SILENT, 61_000)

    (step,) = cluster.decide().steps

    assert ([1, 2, 3], 0) == (ids(step.replicas), step.size)


def test_concurrent_copies_are_limited_per_broker_and_in_the_cluster() -> None:
    """A broker sends and receives four copies at a time, and the cluster has 50; the others wait, and are counted."""
    per_broker = ModelledCluster([None] * 4)
    for _ in range(10):
        per_broker.add(1, 2, 3)
    per_broker.lose(2)
    whole = ModelledCluster([None] * 40, replace(UNBALANCED, cluster_moves_max=5))
    for number in range(3, 33):
        whole.add(number, 2, number + 1)
    whole.lose(2)

    few, some = per_broker.decide(), whole.decide()

    assert (4, 5) == (len(few.steps), len(some.steps))
    assert "6 shards more" in few.refusals[-1].sentence
    assert "25 shards more" in some.refusals[-1].sentence


def test_copies_under_way_count_against_the_limits() -> None:
    """A controller that begins now sees what is under way by the members in force, and starts no more than the rest."""
    cluster = ModelledCluster([None] * 4)
    for _ in range(10):
        cluster.add(1, 2, 3)
    cluster.lose(2)
    for shard_id in (1, 2, 3):
        cluster.plan(shard_id, 1, 4, 3, reason=Reason.REPLACE)

    assert [4] == [step.shard_id for step in cluster.decide().steps]
    cluster.policy = replace(UNBALANCED, broker_moves_max=100, cluster_moves_max=5)
    assert [4, 5] == [step.shard_id for step in cluster.decide().steps]


def test_a_copy_without_a_majority_takes_no_place_among_the_copies() -> None:
    """Otherwise a few shards that are lost for good would keep all others of a broker from being repaired."""
    cluster = ModelledCluster([None] * 5, replace(UNBALANCED, broker_moves_max=1, cluster_moves_max=1))
    cluster.add(1, 2)
    cluster.add(1, 4, 5)
    cluster.plan(1, 1, 3, reason=Reason.COUNT)
    cluster.set(2, drain=Drain.LEADERS)
    cluster.lose(5)
    assert not cluster.decide().steps  # broker 1 sends a copy to broker 3 already

    cluster.lose(2)

    (step,) = cluster.decide().steps
    assert (2, [1, 4, 3]) == (step.shard_id, ids(step.replicas))


def test_a_goal_that_leaves_a_disk_frees_it_in_the_accounts() -> None:
    """What was copied to a full disk for nothing goes away, so nothing else has to leave that disk."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3, size=30 * GIB)
    cluster.add(4, 1, 3, size=16 * GIB)
    cluster.lose(2)
    cluster.plan(1, 1, 4, 3, reason=Reason.REPLACE, copied=20 * GIB)
    cluster.other_bytes[4] = 60 * GIB

    (step,) = cluster.decide().steps

    assert (1, [1, 5, 3]) == (step.shard_id, ids(step.replicas))
    assert "the disk of broker 4 is 96 % full, more than 95 %" in step.sentence


def test_a_replica_that_stays_after_all_fills_its_disk_in_the_accounts() -> None:
    """A disk from which a replica was to leave is too full again when the goal goes back."""
    cluster = ModelledCluster([None] * 5)
    cluster.add(1, 2, 3, size=10 * GIB)
    cluster.add(2, 3, 1, size=5 * GIB)
    cluster.plan(1, 1, 4, 3, reason=Reason.REPLACE)
    cluster.other_bytes[2] = 70 * GIB

    steps = cluster.decide().steps

    assert [(1, [1, 2, 3]), (2, [4, 3, 1])] == [(step.shard_id, ids(step.replicas)) for step in steps]
    assert [Reason.REPLACE, Reason.DISK] == [step.reason for step in steps]


def test_a_target_is_not_filled_beyond_its_limit() -> None:
    """A disk takes a replica only if it is at most 80 % full afterwards, with all copies on their way to it."""
    cluster = ModelledCluster([None] * 4)
    for _ in range(3):
        cluster.add(1, 2, 3, size=10 * GIB)
    cluster.other_bytes[4] = 60 * GIB  # with two replicas of 10 GiB, exactly 80 %
    cluster.lose(2)

    plan = cluster.decide()

    assert [1, 2] == [step.shard_id for step in plan.steps]
    assert "would be more than 80 % full" in plan.refusals[0].sentence


def test_replication_needs_as_many_brokers() -> None:
    """Where no broker is free, the refusal says how many there are."""
    cluster = ModelledCluster([None] * 3)
    cluster.add(1, 2, 3)
    cluster.lose(2)

    assert "3 replicas need as many brokers, and 2 brokers can take replicas" in cluster.decide().refusals[0].sentence


@pytest.mark.parametrize("drain", [Drain.LEADERS, Drain.ALL])
def test_a_drained_broker_that_could_replace_a_lost_one_is_named(drain: Drain) -> None:
    """Otherwise a forgotten drain would keep the replica missing without a word."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    cluster.set(4, drain=drain, is_ready=False)

    plan = cluster.decide()

    assert not plan.steps
    assert plan.refusals[0].sentence.endswith(
        "2 brokers can take replicas; broker 4 is drained: undrain it, or add a broker"
    )


def test_only_brokers_that_could_take_the_replica_once_undrained_are_named() -> None:
    """Broker 1 has a replica of the shard, broker 6 is not there, and 7 has been away for long."""
    cluster = ModelledCluster([None] * 7)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    for broker_id in (1, 4, 5, 6, 7):
        cluster.set(broker_id, drain=Drain.LEADERS, is_ready=False)
    cluster.set(6, is_live=False)
    cluster.set(7, presence=Presence.GONE)

    plan = cluster.decide()

    assert plan.refusals[0].sentence.endswith(
        "1 broker can take replicas; brokers 4, 5 are drained: undrain one, or add a broker"
    )
