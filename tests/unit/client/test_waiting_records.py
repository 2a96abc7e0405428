"""All records that wait in a partition are read, each once, even while leaders move and others arrive."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.unit.client.fake_cluster import TOPIC_ID, Disconnect, FakeCluster, Partition, Topic
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import RetriesExhausted, TopicRecreated
from tidemill.client.leader_requests import RequestRefused
from tidemill.client.waiting_records import PAGE_RECORDS_MAX, WaitingRecord, WaitingRecords
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.peer import timer_list
from tidemill.wire.schema import Message

PLACE = TopicPartition("t", 1)
PAGE = 2


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A cluster of two brokers: the second leads partition 1."""
    with FakeCluster(broker_count=2) as found:
        found.topics["t"] = Topic(partitions={it: Partition(leader=1 + it) for it in range(2)})
        found.unlisted = {timer_list.API.key: timer_list.API}
        yield found


@pytest.fixture
def waiting(cluster: FakeCluster) -> Iterator[WaitingRecords]:
    metadata = ClusterMetadata(cluster.settings())
    yield WaitingRecords(metadata)
    metadata.close()


class Leader:
    """Answers TimerList as a leader does whose pages have two records.  A test changes what waits in between."""

    def __init__(self, cluster: FakeCluster, arrivals: Sequence[int], end: int) -> None:
        self.arrivals = list(arrivals)
        self.end = end
        self.requests: list[tuple[int, timer_list.Request]] = []
        self.between: Callable[[], Message | None] = lambda: None
        cluster.hook = self._answer

    def _answer(self, broker_id: int, name: str, request: Message) -> Message | None:
        if not isinstance(request, timer_list.Request):
            return None
        self.requests.append((broker_id, request))
        instead = self.between()
        if instead is not None:
            return instead
        behind = [it for it in self.arrivals if it > request.after_arrival]
        chosen = behind[: min(request.max_records, PAGE)]
        return timer_list.Response(
            end=self.end, records=[_record(it) for it in chosen], has_more=len(behind) > len(chosen)
        )


def _record(arrival: int) -> WaitingRecord:
    return WaitingRecord(arrival=arrival, due_ms=0, timestamp_ms=0, size_bytes=1)


def arrivals(pages: Iterator[Sequence[WaitingRecord]]) -> list[list[int]]:
    return [[it.arrival for it in page] for page in pages]


def test_every_page_is_asked_of_the_leader_in_the_order_of_arrival(cluster: FakeCluster, waiting: WaitingRecords):
    leader = Leader(cluster, [0, 3, 4, 7, 9], end=10)

    assert [[0, 3], [4, 7], [9]] == arrivals(waiting.pages(PLACE, TOPIC_ID, has_values=True))
    assert [-1, 3, 7] == [it.after_arrival for _, it in leader.requests]
    assert {(2, TOPIC_ID, 1, True, PAGE_RECORDS_MAX, True)} == {
        (broker, it.topic_id, it.partition, it.is_by_arrival, it.max_records, it.has_values)
        for broker, it in leader.requests
    }


def test_values_are_asked_for_only_if_they_are_wanted(cluster: FakeCluster, waiting: WaitingRecords):
    leader = Leader(cluster, [], end=0)

    assert [] == arrivals(waiting.pages(PLACE, has_values=False))
    assert [False] == [it.has_values for _, it in leader.requests]


def test_records_that_arrive_meanwhile_are_left_out_so_that_the_read_ends(
    cluster: FakeCluster, waiting: WaitingRecords
):
    leader = Leader(cluster, [0, 1, 2], end=3)

    def arrive() -> None:
        if len(leader.requests) > 1:
            leader.arrivals += [leader.end, leader.end + 1, leader.end + 2]
            leader.end += 3

    leader.between = arrive

    assert [[0, 1], [2]] == arrivals(waiting.pages(PLACE, has_values=False))
    assert 2 == len(leader.requests)


def test_a_page_of_records_that_have_arrived_meanwhile_is_no_page(cluster: FakeCluster, waiting: WaitingRecords):
    leader = Leader(cluster, [0, 1, 2], end=3)

    def release_and_arrive() -> None:
        if len(leader.requests) == 2:
            leader.arrivals, leader.end = [3, 4, 5], 6

    leader.between = release_and_arrive

    assert [[0, 1]] == arrivals(waiting.pages(PLACE, has_values=False))


def test_a_leader_that_moves_is_followed_without_a_record_twice(cluster: FakeCluster, waiting: WaitingRecords):
    leader = Leader(cluster, [0, 1, 2, 3], end=4)

    def move() -> Message | None:
        if len(leader.requests) == 2:
            cluster.topics["t"].partitions[1].leader = 1
            return timer_list.Response(error_code=errors.NOT_LEADER_OR_FOLLOWER)
        if len(leader.requests) == 3:
            raise Disconnect
        return None

    leader.between = move

    assert [[0, 1], [2, 3]] == arrivals(waiting.pages(PLACE, has_values=False))
    assert [2, 2, 1, 1] == [broker for broker, _ in leader.requests]


def test_a_topic_that_was_created_again_is_not_read(cluster: FakeCluster, waiting: WaitingRecords):
    leader = Leader(cluster, [0], end=1)

    with pytest.raises(TopicRecreated):
        arrivals(waiting.pages(PLACE, TopicId(b"other".ljust(16)), has_values=False))
    assert [] == leader.requests


def test_a_refusal_has_the_text_of_the_broker(cluster: FakeCluster, waiting: WaitingRecords):
    leader = Leader(cluster, [0], end=1)
    leader.between = lambda: timer_list.Response(error_code=errors.INVALID_REQUEST, error_message="topic t is a log")

    with pytest.raises(RequestRefused, match="topic t is a log"):
        arrivals(waiting.pages(PLACE, has_values=False))


def test_a_broker_that_closes_the_connection_has_no_timers(cluster: FakeCluster):
    cluster.unlisted = {}
    metadata = ClusterMetadata(cluster.settings())
    with pytest.raises(RetriesExhausted, match="the request needs a Tidemill broker that serves timer topics"):
        arrivals(WaitingRecords(metadata, deadline_ms=50).pages(PLACE, has_values=False))
    metadata.close()


def test_the_next_arrival_numbers_say_how_much_was_written(cluster: FakeCluster, waiting: WaitingRecords):
    leader = Leader(cluster, [0, 1], end=7)
    places = [TopicPartition("t", 0), PLACE]

    assert dict.fromkeys(places, 7) == waiting.arrival_ends(places)
    assert [(1, 0), (2, 0)] == [(broker, it.max_records) for broker, it in leader.requests]
