"""After all faults, the controller knows what every broker and every shard uses, and who their members are."""

from collections.abc import Iterator
from random import Random
from unittest.mock import patch

import pytest

from tidemill.broker.broker import Broker
from tidemill.broker.load.load_reporter import LoadReporter
from tidemill.model.broker_id import broker_ids
from tidemill.model.shard import METADATA_SHARD
from tidemill.shard.shard import Shard
from tidemill.simulation.cluster import cluster
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.machine import seconds

SEEDS = (1, 3, 4, 8)
REST_S = 20.0  # within this time, all rates become zero, and nothing is reported any more


@pytest.fixture(autouse=True)
def _frequent_reports() -> Iterator[None]:
    with patch.dict(cluster.STATIC, {"tidemill.load.report.ms": "500"}):
        yield


def brokers_of(run: ClusterRun) -> list[Broker]:
    return [machine.broker for machine in run.machines if machine.broker is not None]


def unknown(run: ClusterRun) -> list[str]:
    """Return what the controller does not know, or knows wrongly."""
    controllers = [it for it in brokers_of(run) if it.controller.leads]
    if len(controllers) != 1:
        return ["the controller"]
    reported, image = controllers[0].reported_load, controllers[0].image
    found = [f"broker {it.broker_id}" for it in brokers_of(run) if it.broker_id not in reported.brokers]
    found += [f"shard {shard_id}" for shard_id in {*image.shards} ^ {*reported.shards}]
    led = [(it, shard) for it in brokers_of(run) for shard in it.shards.values() if shard.is_serving]
    return found + [
        f"shard {shard.shard_id}: {reported.shards[shard.shard_id]}"
        for leader, shard in led
        if shard.shard_id in reported.shards and not is_known(controllers[0], leader, shard)
    ]


def is_known(controller: Broker, leader: Broker, shard: Shard) -> bool:
    view, membership = controller.reported_load.shards[shard.shard_id], shard.replica.membership
    size = sum(partition.log.size_bytes for partition in shard.partitions.values())
    return (
        view.leader == leader.broker_id
        and (view.membership, view.size) == (membership, size)
        and view.in_sync == {*broker_ids(membership.voters)}
        and view.behind == dict.fromkeys(broker_ids(membership.learners), 0)
    )


def run_twice(seed: int) -> None:
    """
    Run three brokers with faults, until the controller knows everything; then make another broker the controller, while
    all shards rest, until it knows everything.
    """
    run = ClusterRun(seed, ClusterKnobs.draw(Random(seed), 3))
    run.run()
    run._until(lambda: not unknown(run), "the controller does not know everything")
    run.timeline.run_until(run.timeline.now_us + seconds(REST_S))
    former = next(it for it in brokers_of(run) if it.controller.leads)
    run._until(
        lambda: former.shards[METADATA_SHARD].transfer_leadership() or not former.controller.leads,
        "the controller cannot be another broker",
    )
    run._until(lambda: not former.controller.leads and not unknown(run), "the next controller does not know everything")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_controller_knows_all_in_the_end(seed: int) -> None:
    """
    Links, brokers and the controller fail.  When nothing fails any more, the figures of the controller become those of
    the leaders, although a shard that rests is reported only to a new controller.
    """
    run_twice(seed)


def test_a_reporter_that_never_repeats_itself_is_found() -> None:
    """Without the reports to each new controller, it would not know the shards that rest."""
    follow = LoadReporter._follow_controller

    def follow_silently(self: LoadReporter) -> None:
        due = self._due
        follow(self)
        self._due = due

    with (
        patch.object(LoadReporter, "_follow_controller", follow_silently),
        pytest.raises(InvariantViolation, match="the next controller does not know everything"),
    ):
        run_twice(SEEDS[0])
