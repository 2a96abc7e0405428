"""How commands handle responses about groups that a single healthy broker would not give."""

from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient

from tests.unit.client.fake_cluster import APIS, FakeCluster, Group
from tidemill.cli.coordinator_requests import CoordinatorRequests
from tidemill.cli.failure import Failed
from tidemill.cli.group_admin import GroupAdmin
from tidemill.model import errors
from tidemill.wire.messages import delete_groups, describe_groups, offset_fetch
from tidemill.wire.schema import Message


class Client:
    """A stand-in for confluent-kafka's admin client, which returns `answer`, or raises it, for every request."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def _future(self, answer: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future

    def list_consumer_groups(self, **_: Any) -> "Future[Any]":
        return self._future(self._answer)

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> "dict[str, Future[Any]]":
        return {group: self._future(self._answer) for group in groups}


def offsets_response() -> offset_fetch.Response:
    topic = offset_fetch.Response.Topic
    partitions = [
        topic.Partition(partition_index=number, committed_offset=offset, error_code=errors.NONE)
        for number, offset in enumerate((7, 3, -1))
    ]
    return offset_fetch.Response(topics=[topic(name="t", partitions=partitions)])


def admin_with(answer: Any, ends: dict[tuple[str, int], int] | None = None) -> GroupAdmin:
    topics = SimpleNamespace(client=Client(answer), end_offsets=lambda _: ends or {})
    no_share_groups = SimpleNamespace(
        rows=lambda: [{"group": "a", "state": "Empty", "type": "Share"}],
        described=lambda group: None,
        description_of=lambda group: None,
    )
    requests = SimpleNamespace(ask=lambda *_, newest: offsets_response())
    return GroupAdmin("127.0.0.1:9092", topics, requests, no_share_groups)  # type: ignore[arg-type]


def group(state: ConsumerGroupState, *members: Any) -> SimpleNamespace:
    return SimpleNamespace(
        group_id="g",
        state=state,
        type=ConsumerGroupType.UNKNOWN,
        members=members,
        partition_assignor="",
        coordinator=SimpleNamespace(id=1, host="h", port=2),
    )


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError._TIMED_OUT)), KafkaError(KafkaError._TIMED_OUT)]
)
def test_a_list_without_one_broker_is_incomplete(error: KafkaException | KafkaError) -> None:
    """
    The groups of the other brokers are returned, together with the failure of the broker that did not respond,
    which the library reports as an exception or as a bare error.
    """
    listed = SimpleNamespace(valid=[group(ConsumerGroupState.PREPARING_REBALANCING)], errors=[error])

    rows, problem = admin_with(listed).rows()

    assert {"group": "g", "state": "PreparingRebalance", "type": None} == rows[-1]
    assert problem is not None and "the list is incomplete" in problem.message


def test_a_partition_without_leader_has_no_lag() -> None:
    """
    Without a leader the end offset is unknown, and therefore the lag, too; the total counts only the other partitions.
    """
    described = admin_with(group(ConsumerGroupState.EMPTY), {("t", 0): 10}).description_of("g")

    assert [(0, 7, 10, 3), (1, 3, None, None)] == [
        (it["partition"], it["committed"], it["end_offset"], it["lag"]) for it in described["partitions"]
    ]
    assert 3 == described["total_lag"]


def test_the_offsets_of_a_group_whose_coordinator_moves_are_read() -> None:
    """
    NOT_COORDINATOR is answered by looking for the new coordinator.
    """
    with FakeCluster(broker_count=2) as cluster:
        cluster.groups["g"] = Group()

        def hook(broker_id: int, _: str, request: Message) -> Message | None:
            if not isinstance(request, offset_fetch.Request):
                return None
            cluster.groups["g"].coordinator = 2
            return offsets_response() if broker_id == 2 else offset_fetch.Response(error_code=errors.NOT_COORDINATOR)

        cluster.hook = hook
        bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.settings().bootstrap)
        topics = SimpleNamespace(client=None)
        with closing(CoordinatorRequests(bootstrap)) as requests:
            admin = GroupAdmin(bootstrap, topics, requests, SimpleNamespace())  # type: ignore[arg-type]
            found = admin.offsets("g", is_share=False)

        assert {("t", 0): 7, ("t", 1): 3} == found
        assert [1, 2] == [broker_id for broker_id, name, *_ in cluster.requests if name == "offset_fetch"]


def test_a_group_whose_coordinator_moves_is_described_and_deleted() -> None:
    """
    NOT_COORDINATOR is answered by looking for the new coordinator: librdkafka goes on to ask the one that it knows.
    """
    with FakeCluster(broker_count=2, apis={**APIS, delete_groups.API.key: delete_groups.API}) as cluster:
        moved = cluster.groups["g"] = Group()

        def hook(broker_id: int, _: str, request: Message) -> Message | None:
            error_code = errors.NONE
            if isinstance(request, describe_groups.Request | delete_groups.Request) and broker_id != moved.coordinator:
                error_code = errors.NOT_COORDINATOR
            if isinstance(request, describe_groups.Request):
                described = cluster.answer(broker_id, 0, request)
                assert isinstance(described, describe_groups.Response)
                described.groups[0].error_code = error_code
                return described
            if isinstance(request, delete_groups.Request):
                deleted = delete_groups.Response.Group(group_id="g", error_code=error_code)
                return delete_groups.Response(results=[deleted])
            return None

        cluster.hook = hook
        bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.settings().bootstrap)
        topics = SimpleNamespace(client=AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}))
        admin = GroupAdmin(bootstrap, topics, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
        found = []
        for broker_id in (1, 2):
            moved.coordinator = broker_id
            found.append(admin.type_without_members("g", ""))
        moved.coordinator = 1
        admin.delete("g")

        assert ["Classic"] * 2 == found
        asked = [(broker_id, name) for broker_id, name, *_ in cluster.requests]
        assert [1, 1, 2] == [broker_id for broker_id, name in asked if name == "describe_groups"]
        assert [2, 1] == [broker_id for broker_id, name in asked if name == "delete_groups"]


def test_the_offsets_of_a_group_whose_coordinator_moves_are_reset() -> None:
    """
    NOT_COORDINATOR of the partitions of a commit is answered by looking for the new coordinator, too.
    """
    with FakeCluster(broker_count=2) as cluster:
        moved = cluster.groups["g"] = Group()
        bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.settings().bootstrap)
        topics = SimpleNamespace(client=AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}))
        admin = GroupAdmin(bootstrap, topics, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
        admin.type_without_members("g", "")  # as `groups reset` does: now librdkafka remembers the coordinator
        moved.coordinator = 2
        admin.set_offsets("g", {("t", 0): 5, ("t", 1): 6}, is_share=False)

        assert {("t", 0): 5, ("t", 1): 6} == moved.offsets
        assert [1, 2] == [broker_id for broker_id, name, *_ in cluster.requests if name == "offset_commit"]


def test_a_refusal_to_return_offsets_is_named() -> None:
    """The error has the name of the broker's error code, so that scripts can tell why."""
    with FakeCluster() as cluster:
        cluster.hook = lambda broker_id, name, request: (
            offset_fetch.Response(error_code=errors.GROUP_AUTHORIZATION_FAILED) if name == "offset_fetch" else None
        )
        bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.settings().bootstrap)
        topics = SimpleNamespace(client=None)
        with closing(CoordinatorRequests(bootstrap)) as requests, pytest.raises(Failed) as caught:
            GroupAdmin(bootstrap, topics, requests, SimpleNamespace()).offsets("g", is_share=False)  # type: ignore[arg-type]

    assert "GROUP_AUTHORIZATION_FAILED" == caught.value.name


@pytest.mark.parametrize(
    "answer",
    [group(ConsumerGroupState.DEAD), KafkaException(KafkaError(KafkaError.GROUP_ID_NOT_FOUND))],
    ids=["dead", "not found"],
)
def test_brokers_say_in_two_ways_that_a_group_does_not_exist(answer: Any) -> None:
    """
    Brokers before Kafka 4.0 describe a missing group as dead, while later ones respond with an error (KIP-1043).
    """
    admin = admin_with(answer)

    with pytest.raises(Failed) as caught:
        admin.description_of("g")

    assert "GROUP_ID_NOT_FOUND" == caught.value.name
    assert admin.type_without_members("g", "it cannot be deleted") is None


@pytest.mark.parametrize("state", [state for state in ConsumerGroupState if state.name not in ("EMPTY", "DEAD")])
def test_only_an_empty_group_may_be_changed(state: ConsumerGroupState) -> None:
    """
    A group is in use in every state other than Empty, even in a state that this library does not know.
    """
    with pytest.raises(Failed, match="it cannot be deleted while it is in use") as caught:
        admin_with(group(state)).type_without_members("g", "it cannot be deleted")

    assert "NON_EMPTY_GROUP" == caught.value.name
