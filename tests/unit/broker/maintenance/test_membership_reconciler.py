"""Shards whose membership matches the plan are not checked again until something changes."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.maintenance.planned import plan
from tidemill.broker.maintenance import membership_reconciler
from tidemill.metadata.growth import metadata_learners


def test_shards_with_the_planned_membership_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle shards cost no checks, however many there are.  A new image or leader causes one check of all shards."""
    world = ClusterWorld()
    world.create("flights")
    world.pass_time(3_000)
    checks: list[object] = []
    monkeypatch.setattr(
        membership_reconciler, "metadata_learners", lambda image: [checks.append(image), metadata_learners(image)][1]
    )

    world.pass_time(10_000)
    idle = len(checks)
    world.create("tides")
    world.pass_time(3_000)
    after_a_change = len(checks)
    world.pass_time(10_000)
    idle_again = len(checks) - after_a_change
    world.cut_off(1)
    world.pass_time(5_000)

    assert (0, 0) == (idle, idle_again)
    assert 0 < after_a_change < len(checks)


def test_a_learner_that_has_nothing_does_not_vote() -> None:
    """
    A log with fewer rows than a learner may lack would count a learner as caught up that has none of them.  If it then
    turns out not to be open, the shard has lost its majority.
    """
    world = ClusterWorld()
    world.create("flights")
    plan(world, "flights", 1, 2)
    leader = world[1].shard("flights").replica
    world.until(lambda: len(leader.membership.members) == 2, "broker 3 is removed")
    table = world[3].broker.shard_table
    table._close(table.shards[world[1].shard("flights").shard_id])
    table._create = lambda topic, planned: None  # type: ignore[method-assign]
    plan(world, "flights", 1, 2, 3)
    world.until(lambda: len(leader.membership.learners) == 1, "broker 3 is a learner")

    world.pass_time(3_000)

    assert 2 == len(leader.voters)
