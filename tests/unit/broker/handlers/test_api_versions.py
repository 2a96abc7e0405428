"""ApiVersions tells clients the features of the cluster."""

from typing import Any

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tidemill.metadata.feature_levels import FEATURE_NAME, NEWEST, OLDEST
from tidemill.wire.messages.api_versions import Request


def asked(world: BrokerWorld, version: int) -> Any:
    return world.ask(Request(client_software_name="test", client_software_version="1"), version)


@pytest.mark.parametrize("version", [3, 4])
def test_the_level_of_the_cluster_is_a_feature(version: int) -> None:
    """
    Clients learn the level of the cluster, and the levels that this broker supports, which may be more.  The epoch is
    the offset of the image, so a change of the level raises it.
    """
    world = BrokerWorld(newest_level=NEWEST)
    newer = BrokerWorld(disk=world.disk.after_kill(), clock=world.clock, newest_level=NEWEST + 1)

    answer = asked(newer, version)

    supported = {it.name: (it.min_version, it.max_version) for it in answer.supported_features}
    finalized = {it.name: (it.min_version_level, it.max_version_level) for it in answer.finalized_features}
    assert (OLDEST, NEWEST + 1) == supported[FEATURE_NAME]
    assert (1, NEWEST) == finalized[FEATURE_NAME]
    assert (1, 1) == finalized["share.version"]
    assert newer.broker.image.offset == answer.finalized_features_epoch > 0


def test_old_clients_are_not_told_of_a_feature_that_starts_at_zero() -> None:
    """Before version 4, a client refuses the whole response because of such a feature (KAFKA-17011)."""
    world = BrokerWorld()

    minima = [{it.name: it.min_version for it in asked(world, version).supported_features} for version in (3, 4)]

    assert [{FEATURE_NAME: 1}, {FEATURE_NAME: 1, "share.version": 0}] == minima
