"""Shards whose membership matches the plan are not checked again until something changes."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
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
