"""RACK: replicas that share a rack."""

from tests.unit.rebalance.modelled_cluster import GIB, ModelledCluster, ids
from tidemill.model.broker_state import Presence
from tidemill.model.move_reason import Reason


def test_replicas_go_back_to_a_rack_that_is_back() -> None:
    """While a rack was away its replicas went to the others; when it is back, each shard has a replica there again."""
    cluster = ModelledCluster(["a", "b", "c", "a", "b"])
    cluster.add(1, 2, 4)
    cluster.lose(3, Presence.GONE)
    assert [] == [*cluster.decide().steps]
    cluster.bring_back(3)

    (step,) = cluster.decide().steps

    assert ([1, 2, 3], Reason.RACK) == (ids(step.replicas), step.reason)
    assert "shard 1 → broker 3: rack a has 2 of its 3 replicas; 1.00 GiB; rack c" == step.sentence


def test_replicas_are_as_even_as_the_racks_allow() -> None:
    """Two racks for three replicas are right; brokers without a rack count as one rack."""
    two, none = ModelledCluster(["a", "a", "b", "b"]), ModelledCluster([None] * 4)
    for cluster in (two, none):
        cluster.add(1, 2, 3)

    assert [[], []] == [[*cluster.decide().steps] for cluster in (two, none)]


def test_four_replicas_of_which_three_share_a_rack_become_even() -> None:
    """A rack that has a replica already gets another one if that makes the racks more even."""
    cluster = ModelledCluster(["a", "a", "a", "b", "b"])
    cluster.add(1, 2, 3, 4)

    assert [[1, 5, 3, 4]] == [ids(step.replicas) for step in cluster.decide().steps]


def test_what_a_user_chose_stays_on_its_racks() -> None:
    """A user may have a reason for a rack that the planner cannot know."""
    cluster = ModelledCluster(["a", "a", "b"])
    cluster.add(1, 2, reason=Reason.USER)

    assert [] == [*cluster.decide().steps]


def test_a_rack_whose_disks_are_full_is_a_refusal() -> None:
    """The replicas stay together until there is room."""
    cluster = ModelledCluster(["a", "a", "b"])
    cluster.add(1, 2)
    cluster.other_bytes[3] = 80 * GIB

    plan = cluster.decide()

    assert [] == [*plan.steps]
    assert "rack a has 2 of its 2 replicas" in plan.refusals[0].sentence


def test_a_rack_whose_brokers_all_have_a_replica_is_none_to_move_to() -> None:
    """Nothing can be done, and nothing is refused: there are too few brokers on that rack."""
    cluster = ModelledCluster(["a", "a", "a", "b"])
    cluster.add(1, 2, 3, 4)

    plan = cluster.decide()

    assert ((), ()) == (plan.steps, plan.refusals)
