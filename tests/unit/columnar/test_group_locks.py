"""What a query with mode=share asks the brokers about its group."""

from collections.abc import Iterator

import pytest

from tests.unit.client.fake_cluster import FakeCluster
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.columnar.group_locks import ExclusiveGroup, GroupLocks
from tidemill.columnar.share_batch import Acquired, Holder
from tidemill.model.partition import TopicPartition
from tidemill.peer import share_receive
from tidemill.wire.schema import Message

T0 = TopicPartition("t", 0)
ONE = share_receive.Response.AcquiredRecords(first_offset=4, last_offset=4, delivery_count=1)


class Broker:
    """Answers each ShareReceive with `response`."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.response = share_receive.Response(lock_ms=500, acquired=[ONE])
        cluster.unlisted = {share_receive.API.key: share_receive.API}
        cluster.hook = lambda broker_id, name, request: self._answer(request)

    def _answer(self, request: Message) -> Message | None:
        return self.response if isinstance(request, share_receive.Request) else None


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        yield running


@pytest.fixture
def broker(cluster: FakeCluster) -> Broker:
    return Broker(cluster)


@pytest.fixture
def locks(cluster: FakeCluster) -> Iterator[GroupLocks]:
    made = GroupLocks(ClusterMetadata(cluster.settings()), "my group")
    yield made
    made.close()


def test_an_exclusive_group_is_refused(broker: Broker, locks: GroupLocks) -> None:
    """
    It would give the query's second acquisition nothing for one lock duration.  The message names the key, its value
    and the fix.
    """
    broker.response = share_receive.Response(is_exclusive=True)

    with pytest.raises(ExclusiveGroup) as refused:
        locks.open([T0])

    assert "group=my group has tidemill.share.mode=exclusive" in str(refused.value)
    assert "tidemill configs set --group 'my group' tidemill.share.mode=shared" in str(refused.value)


def test_an_acquisition_says_how_long_records_are_withheld(broker: Broker, locks: GroupLocks) -> None:
    broker.response = share_receive.Response(lock_ms=500, withheld_ms=400)

    assert Acquired([], 500, 400) == locks.acquire(Holder(T0, "m"), 10)


def test_a_group_that_becomes_exclusive_is_refused(broker: Broker, locks: GroupLocks) -> None:
    """
    Each response says what the group is, so a change is noticed by the next acquisition.
    """
    locks.open([T0])
    assert [(4, 5, 1)] == locks.acquire(Holder(T0, "m1"), 10).ranges
    broker.response = share_receive.Response(is_exclusive=True)

    with pytest.raises(ExclusiveGroup):
        locks.acquire(Holder(T0, "m2"), 10)
