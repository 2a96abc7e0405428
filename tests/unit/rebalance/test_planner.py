"""The planner as a whole: order of reasons, status, and what a pass does not do."""

from dataclasses import replace

from tests.unit.metadata.controller_world import CountingEntropy, registration
from tests.unit.rebalance.modelled_cluster import GIB, ModelledCluster, ids
from tidemill.metadata.brokers import register_broker
from tidemill.metadata.metadata_records import BrokerRecord, Endpoint
from tidemill.metadata.result import DecisionContext
from tidemill.model.broker_id import BrokerId
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.internal_topics import INTERNAL_TOPICS
from tidemill.model.move_reason import Reason
from tidemill.rebalance.draft import REFUSALS_MAX
from tidemill.rebalance.plan import Plan, Refusal, Status
from tidemill.rebalance.policy import Policy

COUNT = Policy(bytes_floor=1 << 60)


def test_a_cluster_with_nothing_wrong_stays_still() -> None:
    """No step, no refusal: a plan never moves what is well."""
    cluster = ModelledCluster(["a", "b", "c"], Policy())
    for _ in range(30):
        cluster.add(1, 2, 3)

    assert Plan((), (), Status.IDLE) == cluster.decide()


def test_earlier_reasons_come_first() -> None:
    """A shard that several reasons want gets the step of the earliest one, and the others wait for its end."""
    cluster = ModelledCluster([None] * 6)
    cluster.add(1, 2, 3, size=10 * GIB)
    cluster.lose(1)
    cluster.other_bytes[2] = 75 * GIB
    cluster.set(3, drain=Drain.ALL)

    steps = cluster.run()

    assert [Reason.REPLACE, Reason.DISK, Reason.DRAIN] == [step.reason for step in steps]
    assert [[4, 2, 3], [4, 5, 3], [4, 5, 6]] == [ids(step.replicas) for step in steps]


def test_a_step_under_way_is_no_other_step() -> None:
    """While a shard is on its way, every pass is content with that, and says that it is working."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    cluster.apply(cluster.decide().steps)
    for _ in range(3):
        cluster.advance(copy=1)
        assert Plan((), (), Status.WORKING) == cluster.decide()

    cluster.advance()

    assert Plan((), (), Status.IDLE) == cluster.decide()


def test_the_switch_turns_everything_off() -> None:
    """`tidemill.rebalance.enable=false` leaves every replica where it is."""
    cluster = ModelledCluster([None] * 4, Policy(is_enabled=False))
    cluster.add(1, 2, 3)
    cluster.lose(2)

    assert Plan((), (), Status.OFF) == cluster.decide()


def test_a_new_controller_waits_for_figures() -> None:
    """Before all leaders have reported, what is under way is not known, and the limits could not be kept."""
    cluster = ModelledCluster([None] * 4, began_at_ms=10 * 3_600_000)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    cluster.advance(milliseconds=9_999)
    early = cluster.decide()
    cluster.advance(milliseconds=1)

    assert ((), Status.IDLE) == (early.steps, early.status)
    assert "the controller began 9 s ago" in early.refusals[0].sentence
    assert cluster.decide().steps


def test_the_next_controller_goes_on() -> None:
    """The goals are in the image: a controller without any memory plans what is missing, and nothing twice."""
    cluster = ModelledCluster([None] * 4)
    for _ in range(6):
        cluster.add(1, 2, 3)
    cluster.lose(2)
    cluster.apply(cluster.decide().steps)
    successor = ModelledCluster([None] * 4)
    successor.brokers, successor.shards, successor.now_ms = cluster.brokers, cluster.shards, cluster.now_ms

    assert ([], 4) == ([*successor.decide().steps], len(successor.index.under_way))
    successor.run()
    assert {1: 6, 2: 0, 3: 6, 4: 6} == successor.counts()


def test_register_changes_addresses_and_never_a_membership() -> None:
    """A broker that registers anew while it learns goes on learning: its records name no shard, and no plan changes."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.plan(1, 1, 2, 4, reason=Reason.USER, copied=1)
    context = DecisionContext(
        image=cluster.image, layers=BrokerLayers(), entropy=CountingEntropy(), internal_topics=INTERNAL_TOPICS
    )
    moved = (Endpoint("PLAINTEXT", "127.0.0.1", 9999, "PLAINTEXT"),)
    result = register_broker(context, replace(registration(4), endpoints=moved))

    assert [BrokerRecord] == [type(record) for record in result.records]
    assert Plan((), (), Status.WORKING) == cluster.decide()


def test_a_plan_is_bounded() -> None:
    """A cluster with thousands of shards that cannot move names some, and counts the others."""
    cluster = ModelledCluster([None] * 3)
    for _ in range(REFUSALS_MAX + 20):
        cluster.add(1, 2, 3, size=1)
    cluster.lose(2)

    plan = cluster.decide()

    assert REFUSALS_MAX + 1 == len(plan.refusals)
    assert Refusal("replace", "20 refusals more for this reason") == plan.refusals[-1]


def test_the_metadata_shard_is_replaced_and_not_balanced() -> None:
    """The metadata survives lost brokers, and comes first; its size and its leader are no matter of balance."""
    cluster = ModelledCluster([None] * 4, COUNT)
    cluster.add(1, 2, 3, cpu=900)
    for _ in range(5):
        cluster.add(1, 2, 3, size=0, reason=Reason.USER)
    cluster.shards[0] = cluster.shards.pop(1)
    cluster.index.changed([0, 1])
    cluster.other_bytes[1] = 90 * GIB
    assert [] == [*cluster.decide().steps]

    cluster.lose(2, Presence.GONE)

    first = cluster.decide().steps[0]
    assert (0, [1, 4, 3]) == (first.shard_id, ids(first.replicas))


def test_a_removed_broker_plays_no_part() -> None:
    """The view may have a broker for a moment longer than the image.  It is no target, and needs no replacement."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    brokers = {broker_id: broker for broker_id, broker in cluster.image.brokers.items() if broker_id != 4}

    plan = cluster.decide(replace(cluster.image, brokers=brokers))

    (refusal,) = plan.refusals
    assert (plan.steps, refusal.what) == ((), "shard 1")
    assert "need as many brokers, and 2 brokers can take replicas" in refusal.sentence


def test_a_broker_that_has_not_registered_is_no_target() -> None:
    """A broker that was admitted and never started carries nothing."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    cluster.lose(2)
    image = cluster.image
    unregistered = replace(image.brokers[BrokerId(4)], endpoints=())
    image = replace(image, brokers={**image.brokers, BrokerId(4): unregistered})

    assert () == cluster.decide(image).steps
