"""What waits in timer topics is listed and changed, even while leaders move and connections fail."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.unit.client.fake_cluster import TOPIC_ID, Disconnect, FakeCluster, Partition, Topic
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import RetriesExhausted, UnknownTopic
from tidemill.client.leader_requests import OutcomeUnknown, RequestRefused
from tidemill.client.timer_choice import CANCELLED, Outcome, TimerChoice, delayed_by, shifted_by
from tidemill.client.timer_client import TimerClient
from tidemill.model import errors
from tidemill.peer import timer_list, timer_resolve
from tidemill.wire.schema import Message

PARTITIONS = 3
Answer = Callable[[Message], Message | type[Disconnect]]


@contextmanager
def client(cluster: FakeCluster, **keys: str) -> Iterator[TimerClient]:
    cluster.unlisted = {api.key: api for api in (timer_list.API, timer_resolve.API)}
    metadata = ClusterMetadata(cluster.settings(**keys))
    try:
        yield TimerClient(metadata)
    finally:
        metadata.close()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A cluster of two brokers: the second leads the last partition."""
    with FakeCluster(broker_count=2) as found:
        found.topics["t"] = Topic(partitions={it: Partition(leader=1 + it // 2) for it in range(PARTITIONS)})
        yield found


def answers(cluster: FakeCluster, answer: Answer) -> list[tuple[int, Message]]:
    """Answer timer requests.  Return the list of (broker id, request) so far."""
    asked: list[tuple[int, Message]] = []

    def hook(broker_id: int, name: str, request: Message) -> Message | None:
        if not name.startswith("timer_"):
            return None
        asked.append((broker_id, request))
        found = answer(request)
        if isinstance(found, type):
            raise found
        return found

    cluster.hook = hook
    return asked


def listed(request: Message) -> Message:
    """Answer with three records of the partition, as a leader does."""
    assert isinstance(request, timer_list.Request)
    behind = [
        (due, arrival) for due, arrival in ((10, 0), (10, 1), (20, 2))
        if (due, arrival) > (request.after_due_ms, request.after_arrival)
    ]  # fmt: skip
    records = [
        timer_list.Response.Record(arrival=arrival, due_ms=due, timestamp_ms=0, size_bytes=1)
        for due, arrival in behind[: request.max_records]
    ]
    return timer_list.Response(records=records, has_more=len(behind) > request.max_records, counts=[1, 2])


def test_each_leader_is_asked_for_its_partitions(cluster: FakeCluster) -> None:
    with client(cluster) as timers:
        asked = answers(cluster, lambda _: timer_list.Response(waiting=3, waiting_bytes=4, next_due_ms=5))
        found = timers.stats("t")

    assert [(1, 0), (1, 1), (2, 2)] == [(broker, it.partition) for broker, it in asked]  # type: ignore[attr-defined]
    assert {TOPIC_ID} == {it.topic_id for _, it in asked}  # type: ignore[attr-defined]
    assert [(it, 3, 4, 5, None) for it in range(PARTITIONS)] == [
        (it.partition, it.waiting, it.waiting_bytes, it.next_due_ms, it.limit_ms) for it in found
    ]


def test_pages_continue_behind_the_last_record(cluster: FakeCluster) -> None:
    with client(cluster) as timers:
        answers(cluster, listed)
        first = timers.page("t", count_max=4)
        rest = timers.page("t", count_max=100, after=first.next)
        every = [*timers.records("t")]

    assert [(10, 0, 0), (10, 0, 1), (10, 1, 0), (10, 1, 1)] == [it.order for it in first.records]
    assert [(10, 2, 0), (10, 2, 1), (20, 0, 2), (20, 1, 2), (20, 2, 2)] == [it.order for it in rest.records]
    assert rest.next is None
    assert [*first.records, *rest.records] == every


def test_counts_of_all_partitions_are_added(cluster: FakeCluster) -> None:
    with client(cluster) as timers:
        asked = answers(cluster, listed)
        assert [PARTITIONS, 2 * PARTITIONS] == timers.histogram("t", [15], TimerChoice(key=b"k"))
    assert {(15,)} == {tuple(it.edges_ms) for _, it in asked}  # type: ignore[attr-defined]
    assert {b"k"} == {it.selection.key for _, it in asked}  # type: ignore[attr-defined]


def test_a_change_is_repeated_until_a_leader_decides(cluster: FakeCluster) -> None:
    """
    After a leader that moves, one whose records are being read, and a lost connection.
    """
    failures: list[Message | type[Disconnect]] = [
        timer_resolve.Response(error_code=errors.NOT_LEADER_OR_FOLLOWER),
        timer_resolve.Response(error_code=errors.LEADER_NOT_AVAILABLE),
        Disconnect,
    ]
    with client(cluster) as timers:
        asked = answers(cluster, lambda _: failures.pop() if failures else timer_resolve.Response(changed=1))
        assert Outcome(1, 0, 0) == timers.resolve("t", TimerChoice(ids=[b"a"], partition=1), CANCELLED)
    assert 4 == len(asked)


@pytest.mark.parametrize("answer", [Disconnect, timer_resolve.Response(error_code=errors.REQUEST_TIMED_OUT)])
def test_a_shift_is_repeated_only_if_no_leader_can_have_begun(
    cluster: FakeCluster, answer: Message | type[Disconnect]
) -> None:
    """A shift that is repeated moves the records twice."""
    failures: list[Message | type[Disconnect]] = [
        answer,
        timer_resolve.Response(error_code=errors.NOT_LEADER_OR_FOLLOWER),
    ]
    with client(cluster) as timers:
        asked = answers(cluster, lambda _: failures.pop() if failures else timer_resolve.Response(changed=1))
        with pytest.raises(OutcomeUnknown):
            timers.resolve("t", TimerChoice(ids=[b"a"], partition=1), shifted_by(5))
        assert 2 == len(asked)
        assert Outcome(1, 0, 0) == timers.resolve("t", TimerChoice(ids=[b"a"], partition=1), shifted_by(5))


@pytest.mark.parametrize("shift_ms", [5, -5])
def test_a_shift_that_a_partition_refuses_moves_nothing_in_others(cluster: FakeCluster, shift_ms: int) -> None:
    def answer(request: Message) -> Message:
        assert isinstance(request, timer_resolve.Request)
        is_late = request.partition == PARTITIONS - 1
        return timer_resolve.Response(error_code=errors.INVALID_REQUEST if is_late else errors.NONE, changed=1)

    with client(cluster) as timers:
        asked = answers(cluster, answer)
        with pytest.raises(RequestRefused):
            timers.resolve("t", TimerChoice(), shifted_by(shift_ms))

    assert {True} == {it.is_trial for _, it in asked}  # type: ignore[attr-defined]


def test_a_delay_counts_from_the_clock_of_each_partition(cluster: FakeCluster) -> None:
    """
    A leader that does not know its release clock yet is asked again.
    """
    clocks = {0: [1_000, -1], 1: [2_000], 2: [3_000]}

    def answer(request: Message) -> Message:
        if isinstance(request, timer_list.Request):
            return timer_list.Response(limit_ms=clocks[request.partition].pop())
        return timer_resolve.Response(changed=1)

    with client(cluster) as timers:
        asked = answers(cluster, answer)
        assert Outcome(PARTITIONS, 0, 0) == timers.resolve("t", TimerChoice(ids=[b"a"]), delayed_by(5))

    dues = [(it.partition, it.due_ms) for _, it in asked if isinstance(it, timer_resolve.Request)]
    assert [(0, 1_005), (1, 2_005), (2, 3_005)] == dues


def test_a_refusal_is_not_repeated(cluster: FakeCluster) -> None:
    refused = timer_list.Response(error_code=errors.INVALID_REQUEST, error_message="not of kind timer")
    with client(cluster) as timers:
        asked = answers(cluster, lambda _: refused)
        with pytest.raises(RequestRefused, match="not of kind timer") as error:
            timers.stats("t")
    assert "INVALID_REQUEST" == error.value.name
    assert 1 == len(asked)


def test_retries_end_at_the_deadline(cluster: FakeCluster) -> None:
    with client(cluster, default_api_timeout_ms="100") as timers:
        answers(cluster, lambda _: Disconnect)
        with pytest.raises(RetriesExhausted, match=r"^topic 't': .*needs a Tidemill broker that serves timer topics$"):
            timers.stats("t")


def test_a_partition_that_does_not_exist_is_named(cluster: FakeCluster) -> None:
    with client(cluster) as timers, pytest.raises(UnknownTopic, match="partition 9 does not exist"):
        timers.stats("t", 9)
