"""Records are received and resolved without a session, even while leaders move and connections fail."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.client.fake_cluster import TOPIC_ID, Disconnect, FakeCluster, Partition, Topic
from tidemill.batches.builder import build_batch
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import RetriesExhausted, TopicRecreated, UnknownTopic
from tidemill.client.share_client import OPERATOR, Acquired, Resolved, ShareClient, ShareRefused
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.peer import share_describe, share_receive, share_resolve
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.wire.schema import Message

T0 = TopicPartition("t", 0)
SHARE_APIS = {api.key: api for api in (share_describe.API, share_receive.API, share_resolve.API)}
ACCEPT = Acknowledgement.ACCEPT


@contextmanager
def client(cluster: FakeCluster, **keys: str) -> Iterator[ShareClient]:
    cluster.unlisted = SHARE_APIS
    metadata = ClusterMetadata(cluster.settings(**keys))
    try:
        yield ShareClient(metadata)
    finally:
        metadata.close()


def answers(cluster: FakeCluster, *given: Message | type[Disconnect]) -> list[tuple[int, Message]]:
    """Answer share requests in turn, the last one again and again.  Return the list of (broker id, request) so far."""
    left = itertools.chain(given, itertools.repeat(given[-1]))
    asked: list[tuple[int, Message]] = []

    def hook(broker_id: int, name: str, request: Message) -> Message | None:
        if not name.startswith("share_"):
            return None
        asked.append((broker_id, request))
        answer = next(left)
        if isinstance(answer, type):
            raise answer
        return answer

    cluster.hook = hook
    return asked


def receive(of: ShareClient, wait_ms: int = 0):  # type: ignore[no-untyped-def]
    return of.receive(T0, "g", "m", max_records=10, max_bytes=1_000, wait_ms=wait_ms)


def test_only_acquired_records_are_delivered() -> None:
    """
    A response has whole batches.  Records that were not acquired are left out, and each has its number of deliveries.
    """
    batch = bytes(build_batch([(None, b"%d" % number, (), 5) for number in range(6)], base_offset=10))
    ranges = [
        share_receive.Response.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
        for first, last, count in ((11, 12, 1), (14, 14, 3))
    ]
    with FakeCluster() as cluster, client(cluster) as shares:
        answers(cluster, share_receive.Response(lock_ms=500, acquired=ranges, records=batch))

        got = receive(shares)

    assert (TOPIC_ID, 500, [Acquired(11, 12, 1), Acquired(14, 14, 3)]) == (got.topic_id, got.lock_ms, got.acquired)
    assert [(11, b"1", 1), (12, b"2", 1), (14, b"4", 3)] == [
        (it.record.offset, it.record.value, it.delivery_count) for it in got.deliveries()
    ]


def test_a_request_is_repeated_with_the_next_leader() -> None:
    """
    After NOT_LEADER_OR_FOLLOWER, or a lost connection, the client asks the current leader.
    """
    moved = share_resolve.Response(error_code=errors.NOT_LEADER_OR_FOLLOWER)
    with FakeCluster(broker_count=2) as cluster, client(cluster) as shares:
        asked = answers(cluster, moved, Disconnect, share_resolve.Response(finished=3))
        usual = cluster.hook

        def hook(broker_id: int, name: str, request: Message) -> Message | None:
            if len(asked) == 1:
                cluster.partition.leader = 2
            return usual(broker_id, name, request)

        cluster.hook = hook
        assert Resolved(0, 3, 0) == shares.resolve(T0, "g", "m", [(4, 6, ACCEPT)])

    assert [1, 2, 2] == [broker_id for broker_id, _ in asked]
    request = asked[-1][1]
    assert isinstance(request, share_resolve.Request)
    assert ("m", share_resolve.NOT_LISTED, share_resolve.BY_POLICY) == (
        request.member_id,
        request.held_as,
        request.delay_ms,
    )
    assert [(4, 6, [ACCEPT])] == [(it.first_offset, it.last_offset, [*it.acknowledge_types]) for it in request.batches]


def test_a_group_whose_coordinator_is_starting_is_asked_again() -> None:
    starting = share_receive.Response(error_code=errors.COORDINATOR_NOT_AVAILABLE, error_message="not yet")
    with FakeCluster() as cluster, client(cluster) as shares:
        asked = answers(cluster, starting, share_receive.Response(lock_ms=1))
        assert [] == receive(shares).acquired
    assert 2 == len(asked)


def test_a_long_wait_is_divided() -> None:
    """
    One request waits less than the client waits for a response.  The client asks again until the wait is over.
    """
    with FakeCluster() as cluster, client(cluster, request_timeout_ms="100") as shares:
        asked = answers(cluster, share_receive.Response(lock_ms=1))
        receive(shares, wait_ms=51)
    assert asked, "at least one request"
    waits = [it.max_wait_ms for _, it in asked if isinstance(it, share_receive.Request)]
    assert max(waits) <= 50 and waits[0] == 50


def test_a_refusal_is_not_repeated() -> None:
    """
    A refusal that would be the same later is raised with the broker's message.
    """
    refused = share_receive.Response(error_code=errors.GROUP_ID_NOT_FOUND, error_message="of another type")
    with FakeCluster() as cluster, client(cluster) as shares:
        asked = answers(cluster, refused)
        with pytest.raises(ShareRefused, match="of another type") as error:
            receive(shares)
    assert "GROUP_ID_NOT_FOUND" == error.value.name
    assert 1 == len(asked)


def test_retries_end_at_the_deadline() -> None:
    """
    The message has the last failure.  A broker that closes the connection may not know the request.
    """
    with FakeCluster() as cluster, client(cluster, default_api_timeout_ms="100") as shares:
        answers(cluster, share_resolve.Response(error_code=errors.KAFKA_STORAGE_ERROR, error_message="disk full"))
        with pytest.raises(RetriesExhausted, match=r"group 'g', topic 't': .*disk full$"):
            shares.resolve(T0, "g", "m")
        answers(cluster, Disconnect)
        with pytest.raises(RetriesExhausted, match="needs a Tidemill broker"):
            shares.resolve(T0, "g", "m")


def test_records_of_a_deleted_topic_are_not_resolved_in_its_successor() -> None:
    """
    A resolve names the topic id that the records were received with.
    """
    with FakeCluster() as cluster, client(cluster) as shares:
        asked = answers(cluster, share_resolve.Response(error_code=errors.UNKNOWN_TOPIC_ID))
        shares_before = cluster.topics["t"].topic_id
        usual = cluster.hook

        def hook(broker_id: int, name: str, request: Message) -> Message | None:
            if asked:
                cluster.topics["t"].topic_id = TopicId(b"n" * 16)
            return usual(broker_id, name, request)

        cluster.hook = hook
        with pytest.raises(TopicRecreated):
            shares.resolve(T0, "g", "m", [(0, 0, ACCEPT)], topic_id=shares_before)
        with pytest.raises(UnknownTopic):
            shares.resolve(TopicPartition("t", 9), "g", OPERATOR)


def test_each_leader_describes_its_partitions() -> None:
    """
    A partition whose leader has moved is asked for again, without the others.
    """
    share = share_describe.Response.Share

    with FakeCluster(broker_count=2) as cluster, client(cluster) as shares:
        cluster.topics["t"] = Topic(partitions={number: Partition(leader=number % 2 + 1) for number in range(3)})
        asked: list[tuple[int, list[int]]] = []

        def hook(broker_id: int, name: str, request: Message) -> Message | None:
            if not isinstance(request, share_describe.Request):
                return None
            numbers = [it.partition for it in request.partitions]
            asked.append((broker_id, numbers))
            moved = errors.NOT_LEADER_OR_FOLLOWER if len(asked) == 1 else errors.NONE
            return share_describe.Response(
                shares=[
                    share(error_code=moved if number == 0 else 0, start=number - 1, end=9, lag=number - 1)
                    for number in numbers
                ]
            )

        cluster.hook = hook
        found = shares.describe("g", "t")

    assert [(0, None, 9), (1, 0, 9), (2, 1, 9)] == [(it.partition.partition, it.start, it.end) for it in found]
    assert [(1, [0, 2]), (1, [0]), (2, [1])] == asked or [(1, [0, 2]), (2, [1]), (1, [0])] == asked
