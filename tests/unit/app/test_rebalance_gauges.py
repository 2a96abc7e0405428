"""What a scrape shows of re-placement."""

from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.maintenance.planned import plan
from tidemill.app.observed import ObservedBroker
from tidemill.broker.controller.rebalance_host import RebalanceHost
from tidemill.broker.maintenance import replica_releases
from tidemill.metadata.admission import AdmitBroker
from tidemill.metadata.broker_states import SetDrain, SetPresence
from tidemill.metadata.feature_levels import NEWEST
from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.model.broker_state import Drain, Presence
from tidemill.rebalance.plan import Plan, Refusal, Status

PREFIXES = ("tidemill_rebalance_", "tidemill_brokers{", "tidemill_replicas_released")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> ClusterWorld:
    monkeypatch.setattr(replica_releases, "ASK_MS", 200)
    return ClusterWorld()


def samples(world: ClusterWorld, number: int) -> dict[str, float]:
    text = ObservedBroker(lambda: world[number].broker).metrics_text()
    assert text is not None
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(PREFIXES))
    return {name: float(value) for name, value in lines if not name.endswith("_created")}


def submit(world: ClusterWorld, command: Any) -> None:
    answers: list[Any] = []
    world.controller.broker.controller.submit(command).then(answers.append)
    world.until(lambda: bool(answers), "the command is committed")
    assert answers[0].problem is None


def test_only_the_controller_shows_the_status_and_the_brokers(world: ClusterWorld) -> None:
    """
    A broker that is drained counts as draining while it is there, and as silent when it is silent, so that the states
    add up to the number of brokers.
    """
    controller = world.controller.broker.broker_id
    others = [number for number in (1, 2, 3) if number != controller]
    for number in others:
        submit(world, SetDrain(broker_id=BrokerId(number), drain=Drain.LEADERS))
    submit(world, SetPresence(broker_id=BrokerId(others[1]), presence=Presence.SILENT))

    shown, elsewhere = samples(world, controller), samples(world, others[0])

    states = {name.split('"')[1]: count for name, count in shown.items() if name.startswith("tidemill_brokers{")}
    assert {"active": 1, "silent": 1, "gone": 0, "draining": 1} == states
    assert 1 == sum(count for name, count in shown.items() if name.startswith("tidemill_rebalance_status{"))
    assert [] == [name for name in elsewhere if "{" in name]


def test_a_refusal_of_what_only_balance_asks_for_is_not_counted(world: ClusterWorld) -> None:
    """Brokers may stay uneven for good, as where a user chose the replicas, and an operator need not be called."""
    refusals = Refusal("shard 1", "it is stuck"), Refusal("broker 2", "it carries more", is_wish=True)
    controller = world.controller.broker
    world.until(lambda: controller.rebalance.plan is not None, "it is the controller")

    with patch.object(RebalanceHost, "plan", Plan((), refusals, Status.IDLE)):
        shown = samples(world, controller.broker_id)

    assert 1 == shown["tidemill_rebalance_refusals"]


def test_a_broker_that_never_started_is_not_counted(world: ClusterWorld) -> None:
    """
    Its id was given out, and it has not registered: it failed at its start, say.  It is neither active nor missed.  A
    directory that takes the place of a lost one is, because it carries the replicas of that.
    """
    controller = world.controller.broker.broker_id
    directory = DirectoryId(b"never registered")
    admission = AdmitBroker(directory_id=directory, broker_id=None, live=frozenset(), level=NEWEST)
    answers: list[Any] = []
    world.controller.broker.controller.submit(admission).then(answers.append)
    world.until(lambda: bool(answers), "the directory is admitted")
    world.pass_time(2_000)

    assert answers[0].broker_id in world.controller.broker.image.brokers
    assert 3 == sum(it for name, it in samples(world, controller).items() if name.startswith("tidemill_brokers{"))


def test_a_move_is_counted_while_it_is_under_way(world: ClusterWorld) -> None:
    """
    While the new replica is copied the controller counts one move, and none when it votes.  The bytes are counted where
    they are sent, and the former replica where it is closed.
    """
    world.create("flights", brokers=(1, 2))
    controller = world.controller.broker
    world.until(lambda: controller.rebalance.plan is not None, "the controller plans")
    world[world.led_by("flights")].produce("flights", b"a" * 1_000)
    world.pass_time(15_000)  # all leaders have reported
    before = {number: samples(world, number) for number in (1, 2, 3)}
    world.hold(to=(3,))

    plan(world, "flights", 1, 3)
    world.until(lambda: samples(world, controller.broker_id)["tidemill_rebalance_moves"] == 1, "the move is seen")
    missing = samples(world, controller.broker_id)["tidemill_rebalance_missing_bytes"]
    world.hold()
    world.until(lambda: samples(world, controller.broker_id)["tidemill_rebalance_moves"] == 0, "the move is over")
    world.until(lambda: "flights" not in world[2].broker.shard_table.topics, "broker 2 closes its replica")

    grown = {
        name: {number: samples(world, number)[name] - before[number][name] for number in (1, 2, 3)}
        for name in ("tidemill_rebalance_moved_bytes_total", "tidemill_replicas_released_total")
    }
    moved, released = grown.values()
    assert missing > 1_000 and 0 == samples(world, controller.broker_id)["tidemill_rebalance_missing_bytes"]
    assert 0 < moved[1] + moved[2] and 0 == moved[3]
    assert {1: 0, 2: 1, 3: 0} == released
