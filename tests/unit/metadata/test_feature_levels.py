"""Feature levels: what a broker may apply, and which brokers a cluster accepts."""

from collections.abc import Iterator

import pytest

from tests.unit.metadata.controller_world import Cluster, admission, registration, voter
from tidemill.metadata.brokers import BootstrapCluster
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER, NEWEST, OLDEST, checked
from tidemill.metadata.metadata_records import (
    BrokerRecord,
    ClusterRecord,
    FeatureRecord,
    MetadataFormatError,
    Record,
    encode,
)
from tidemill.metadata.snapshot import snapshot_records
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId


def test_a_newer_feature_level_is_refused_before_the_next_record_is_decoded() -> None:
    """
    A broker does not apply a feature level that its version does not support.  It reports the level, and not that it
    cannot decode one of the records that the level allows.
    """

    def newer_log() -> Iterator[Record]:
        yield ClusterRecord("c")
        yield FeatureRecord(NEWEST + 1)
        raise AssertionError("a record of an unknown type")

    with pytest.raises(MetadataFormatError) as refused:
        tuple(checked(newer_log(), NEWEST))

    assert f"the cluster is at feature level {NEWEST + 1}; this version supports up to {NEWEST}" in str(refused.value)
    assert (FeatureRecord(NEWEST),) == tuple(checked([FeatureRecord(NEWEST)], NEWEST))


def test_a_new_cluster_is_at_the_newest_level() -> None:
    """A new cluster has no brokers of older versions, so it begins at the newest level of its first broker."""
    cluster = Cluster()

    assert (NEWEST, NEWEST) == (cluster.image.feature_level, cluster.image.brokers[BrokerId(1)].level)


def test_a_cluster_at_an_older_level_gets_only_records_that_older_versions_read() -> None:
    """
    Below the level of elastic clusters, what brokers support is not recorded, because brokers of the first version
    cannot read that version of the record.
    """
    cluster = Cluster(level=OLDEST)
    cluster.join(2)
    cluster.create("t", partition_count=2, replication_factor=2)

    records = tuple(snapshot_records(cluster.image))

    assert OLDEST == cluster.image.feature_level
    assert {0} == {encode(record)[1] for record in records}
    assert {2} == {len(cluster.image.brokers), sum(isinstance(it, BrokerRecord) for it in records)}


def test_an_elastic_cluster_records_what_brokers_support() -> None:
    """The newest level of a broker is recorded when it is admitted, and again when it registers with another one."""
    cluster = Cluster(level=ELASTIC_CLUSTER)
    cluster.do(admission(voter(2).directory_id, 2, level=ELASTIC_CLUSTER))
    levels = [cluster.image.brokers[BrokerId(2)].level]

    for level in (ELASTIC_CLUSTER + 1, ELASTIC_CLUSTER):  # the broker's version goes up, and back
        cluster.do(registration(2, level=level))
        levels.append(cluster.image.brokers[BrokerId(2)].level)

    assert [ELASTIC_CLUSTER, ELASTIC_CLUSTER + 1, ELASTIC_CLUSTER] == levels
    assert cluster.image.brokers == cluster.restored().brokers


@pytest.mark.parametrize("level", [1, 2])
def test_a_broker_of_an_older_version_is_neither_admitted_nor_registered(level: int) -> None:
    """
    The refusal names the broker, both levels and the fix.  A refused admission takes no broker id.  This also applies
    to a broker that registered with a newer version before.
    """
    cluster = Cluster(brokers=2, level=3)
    before = cluster.image

    admitted = cluster.do(admission(voter(7).directory_id, None, level=level))
    asked_again = cluster.do(admission(voter(2).directory_id, 2, level=level, was_admitted=True))
    registered = cluster.do(registration(2, level=level))

    for answer, who in ((admitted, "this broker"), (asked_again, "broker 2"), (registered, "broker 2")):
        assert answer.problem == (
            errors.UNSUPPORTED_VERSION,
            f"the cluster is at feature level 3, and the version of Tidemill on {who} supports up to {level}; "
            "upgrade Tidemill there",
        )
    assert before == cluster.image


def test_a_repeated_bootstrap_keeps_the_level() -> None:
    """A broker of a newer version that starts as the controller of an older cluster does not raise its level."""
    cluster = Cluster(level=OLDEST)
    before = cluster.image

    cluster.do(BootstrapCluster(cluster_id="c", voter=voter(1), level=NEWEST))

    assert before.feature_level == cluster.image.feature_level == OLDEST
    assert before == cluster.image
