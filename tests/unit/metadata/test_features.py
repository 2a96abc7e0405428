"""UpdateFeatures: when the cluster's feature level is raised, and who is named when it is not."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.metadata.controller_world import Cluster, admission, voter
from tidemill.metadata.features import UpdateFeatures
from tidemill.metadata.metadata_records import BrokerRecord, FeatureRecord, encode
from tidemill.metadata.unregistration import UnregisterBroker
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId

ALL_NEW = {1: 2, 2: 2, 3: 2}


def update(cluster: Cluster, level: int, supported: Mapping[int, int], *, validate_only: bool = False) -> Any:
    levels = {BrokerId(broker_id): newest for broker_id, newest in supported.items()}
    return cluster.do(UpdateFeatures(level=level, supported=levels, validate_only=validate_only))


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster of three brokers at level 1."""
    return Cluster(brokers=3, level=1)


def test_the_level_is_raised_when_every_broker_supports_it(cluster: Cluster) -> None:
    """The new level is recorded together with the levels that the brokers support."""
    answer = update(cluster, 2, ALL_NEW | {2: 7})

    assert (2, None) == (answer.level, answer.problem)
    assert 2 == cluster.image.feature_level
    assert [2, 7, 2] == [broker.level for broker in cluster.image.brokers.values()]
    assert cluster.image == cluster.restored()


def test_the_level_comes_before_what_it_allows(cluster: Cluster) -> None:
    """A broker that cannot read the records of the new level must first read that there is a new level."""
    supported = {BrokerId(broker_id): 2 for broker_id in (1, 2, 3)}

    result = cluster.controller.decide(UpdateFeatures(level=2, supported=supported), 0)

    assert [FeatureRecord, BrokerRecord, BrokerRecord, BrokerRecord] == [type(it) for it in result.records]
    assert [0, 1, 1, 1] == [encode(record)[1] for record in result.records]


@pytest.mark.parametrize(
    ("supported", "says"),
    [
        (
            {1: 2, 2: 1, 3: 2},
            "feature level 2 is refused: broker 2 supports up to 1: upgrade Tidemill there and restart it",
        ),
        (
            {1: 2, 2: 2},
            "feature level 2 is refused: broker 3 is registered but not live: bring it back, or replace it "
            "by starting Tidemill on an empty directory with the same broker.id",
        ),
        (
            {1: 1},
            "feature level 2 is refused: broker 1 supports up to 1: upgrade Tidemill there and restart it; brokers 2, "
            "3 are registered but not live: bring them back, or replace them by starting Tidemill on an empty "
            "directory with the same broker.id",
        ),
    ],
)
def test_the_brokers_that_block_an_upgrade_are_named(cluster: Cluster, supported: dict[int, int], says: str) -> None:
    """
    A dead registration blocks an upgrade, and nothing else shows it (Strimzi #10296), so it is named as well as a
    broker of an older version.  The other brokers' levels are not recorded either.
    """
    before = cluster.image

    answer = update(cluster, 2, supported)

    assert (errors.INVALID_UPDATE_VERSION, says) == answer.problem
    assert 1 == answer.level
    assert before == cluster.image


def test_a_lost_broker_is_removed_before_an_upgrade() -> None:
    """The refusal names a way that is open: the cluster can record that a broker is removed."""
    cluster = Cluster(brokers=4, level=2)
    cluster.live = frozenset(map(BrokerId, (1, 2, 3)))
    supported = dict.fromkeys((1, 2, 3), 3)

    refused = update(cluster, 3, supported)
    removed = cluster.do(UnregisterBroker(broker_id=BrokerId(4), carrying=()))

    assert refused.problem.message.endswith(
        "broker 4 is registered but not live: bring it back, or remove it from the cluster"
    )
    assert (None, None) == (removed.problem, update(cluster, 3, supported).problem)


def test_a_lost_broker_is_replaced_before_the_first_upgrade(cluster: Cluster) -> None:
    """Below level 2 no broker can be removed.  An empty directory in its place opens the way, as the refusal says."""
    cluster.live = frozenset(map(BrokerId, (1, 2)))

    refused = update(cluster, 2, {1: 2, 2: 2})
    removed = cluster.do(UnregisterBroker(broker_id=BrokerId(3), carrying=()))
    replaced = cluster.do(admission(voter(4).directory_id, 3, live=(1, 2)))

    assert refused.problem.message.endswith(
        "replace it by starting Tidemill on an empty directory with the same broker.id"
    )
    assert errors.UNSUPPORTED_VERSION == removed.problem.error_code
    assert (None, None) == (replaced.problem, update(cluster, 2, ALL_NEW).problem)


def test_what_a_broker_says_now_counts_and_not_what_is_recorded() -> None:
    """A broker that has started again with an older version blocks an upgrade before it registers."""
    cluster = Cluster(brokers=3, level=2)
    update(cluster, 2, ALL_NEW)

    refused, raised = update(cluster, 3, {1: 3, 2: 2, 3: 3}), update(cluster, 3, {1: 3, 2: 3, 3: 4})

    assert refused.problem is not None and "broker 2 supports up to 2" in refused.problem.message
    assert (3, None) == (raised.level, raised.problem)
    assert [3, 3, 4] == [broker.level for broker in cluster.image.brokers.values()]


@pytest.mark.parametrize("level", [1, 0, -1])
def test_the_level_is_never_lowered(level: int) -> None:
    """The logs may contain what older versions cannot read, so no level below the current one is accepted."""
    cluster = Cluster(brokers=3, level=2)
    before = cluster.image

    answer = update(cluster, level, ALL_NEW)

    assert answer.problem is not None and "which is never lowered" in answer.problem.message
    assert (errors.INVALID_UPDATE_VERSION, 2) == (answer.problem.error_code, answer.level)
    assert before == cluster.image


def test_the_current_level_is_accepted_and_changes_nothing(cluster: Cluster) -> None:
    """A repeated upgrade has the same response, even while a broker is down."""
    update(cluster, 2, ALL_NEW)
    before = cluster.image

    answer = update(cluster, 2, {1: 2, 2: 2})

    assert (2, None) == (answer.level, answer.problem)
    assert before == cluster.image


def test_a_dry_run_changes_nothing(cluster: Cluster) -> None:
    """A dry run has the response of the upgrade, and no records."""
    before = cluster.image

    would, would_not = (update(cluster, 2, supported, validate_only=True) for supported in (ALL_NEW, {1: 2}))

    assert (2, None) == (would.level, would.problem)
    assert would_not.problem is not None
    assert before == cluster.image


def test_a_broker_that_was_only_admitted_blocks_an_upgrade_while_it_is_live(cluster: Cluster) -> None:
    """
    A broker that was admitted and never registered carries nothing, so it blocks no upgrade for ever.  While it is
    live, it reads the metadata, so it must support the level.
    """
    cluster.do(admission(voter(4).directory_id, 4, level=1))

    live, gone = update(cluster, 2, ALL_NEW | {4: 1}), update(cluster, 2, ALL_NEW)

    assert live.problem is not None and "broker 4 supports up to 1" in live.problem.message
    assert gone.problem is None
    assert 1 == cluster.image.brokers[BrokerId(4)].level
