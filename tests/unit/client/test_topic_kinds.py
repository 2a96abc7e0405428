"""Looking up the kinds of topics."""

from collections.abc import Iterator

import pytest

from tests.unit.client.fake_cluster import Disconnect, FakeCluster, Topic
from tidemill.client import topic_kinds
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import RetriesExhausted


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.topics["t"].kind = "timer"
        running.topics["u"] = Topic()
        yield running


@pytest.fixture
def cluster(brokers: FakeCluster) -> Iterator[ClusterMetadata]:
    metadata = ClusterMetadata(brokers.settings())
    yield metadata
    metadata.close()


def test_each_topic_has_a_kind(cluster: ClusterMetadata, brokers: FakeCluster):
    assert {"t": "timer", "u": "log"} == topic_kinds.kinds(cluster, ["t", "u"])
    assert 1 == brokers.count("describe_configs")


def test_a_kind_that_is_not_reported_is_missing(
    cluster: ClusterMetadata, brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(topic_kinds, "NEW_TOPIC_MS", 20)
    brokers.topics["u"].kind = None

    assert {"t": "timer"} == topic_kinds.kinds(cluster, ["t", "u", "missing"])


def test_a_topic_that_was_just_created_is_found(cluster: ClusterMetadata, brokers: FakeCluster):
    new = brokers.topics.pop("t")

    def create_at_second_request(broker_id: int, name: str, request: object) -> None:
        if brokers.count("describe_configs") == 2:
            brokers.topics["t"] = new

    brokers.hook = create_at_second_request

    assert {"t": "timer"} == topic_kinds.kinds(cluster, ["t"])


def test_a_broker_that_is_away_is_waited_for_until_the_deadline(cluster: ClusterMetadata, brokers: FakeCluster):
    def lose_first(broker_id: int, name: str, request: object) -> None:
        if name == "describe_configs" and brokers.count(name) == 1:
            raise Disconnect

    def lose(broker_id: int, name: str, request: object) -> None:
        raise Disconnect

    brokers.hook = lose_first
    assert {"t": "timer"} == topic_kinds.kinds(cluster, ["t"])

    brokers.hook = lose
    with pytest.raises(RetriesExhausted, match="gave up after 50 ms"):
        topic_kinds.kinds(cluster, ["t"], deadline_ms=50)
