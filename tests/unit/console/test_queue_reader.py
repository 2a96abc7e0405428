"""What the pages of queues read from coordinators and leaders."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.console.queue_world import GROUP, partition_row, share
from tidemill.client.failures import BrokerUnreachable, ClientError
from tidemill.console import queue_reader
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.queue_reader import ShareTopics
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.peer import share_describe
from tidemill.wire.messages import describe_share_group_offsets as offsets
from tidemill.wire.messages import share_group_describe

ORDERS, MAILS = b"o" * 16, b"m" * 16


def reader(answer: Callable[[int, Any], Any]) -> ClusterReader:
    """Return a reader whose brokers answer as `answer(broker_id, request)` says."""

    class Answering:
        def ask(self, broker_id: int, api: object, request: object, *, version: int | None = None) -> Any:
            return answer(broker_id, request)

    return cast("ClusterReader", Answering())


def described(group_id: str, *lags: int, topic: str = "orders", code: int = 0) -> offsets.Response.Group:
    partition = offsets.Response.Group.Topic.Partition
    partitions = [
        partition(
            partition_index=at, start_offset=1, leader_epoch=1, lag=lag, error_code=errors.NONE if lag >= 0 else 5
        )
        for at, lag in enumerate(lags)
    ]
    topics = [offsets.Response.Group.Topic(topic_name=topic, topic_id=ORDERS, partitions=partitions)]
    return offsets.Response.Group(group_id=group_id, topics=[] if code else topics, error_code=code)


def test_topics_come_from_the_coordinators() -> None:
    """
    Each coordinator is asked once.  The lag is unknown if that of a partition is; the other groups are shown if one
    coordinator is down.
    """
    rows = [replace(GROUP, group_id=group_id, coordinator=at) for group_id, at in (("a", 1), ("b", 1), ("c", 3))]

    def answer(broker_id: int, request: offsets.Request) -> offsets.Response:
        if broker_id == 3:
            raise BrokerUnreachable("broker 3 is down")
        assert ["a", "b"] == [it.group_id for it in request.groups]
        return offsets.Response(groups=[described("a", 4, 3), described("b", 4, -1)])

    topics, problems = queue_reader.topics(reader(answer), rows)

    assert {"a": ShareTopics({"orders": ORDERS}, 7), "b": ShareTopics({"orders": ORDERS}, None)} == topics
    assert ("Topics of share groups coordinated by broker 3 are missing: broker 3 is down",) == problems


def test_a_group_that_was_deleted_meanwhile_is_no_problem() -> None:
    """
    A group that its coordinator does not know any more has no topics; any other error is shown.
    """
    groups = [described("gone", code=errors.GROUP_ID_NOT_FOUND), described("moved", code=errors.NOT_COORDINATOR)]

    topics, problems = queue_reader.topics(reader(lambda *_: offsets.Response(groups=groups)), [GROUP])

    assert ({}, ("Topics of share group moved are missing: NOT_COORDINATOR",)) == (topics, problems)


def test_each_leader_describes_its_partitions() -> None:
    """
    The state of a partition comes from its leader.  It is unknown if the leader is down or has just lost leadership, or
    if there is no leader.
    """
    rows = [partition_row(at, leader) for at, leader in enumerate((1, 2, None, 1))]

    def answer(broker_id: int, request: share_describe.Request) -> share_describe.Response:
        if broker_id == 2:
            raise BrokerUnreachable("broker 2 is down")
        assert [(ORDERS, 0), (ORDERS, 3)] == [(it.topic_id, it.partition) for it in request.partitions]
        return share_describe.Response(
            shares=[share(held=8), share_describe.Response.Share(error_code=errors.NOT_LEADER_OR_FOLLOWER)]
        )

    topics = {"g": ShareTopics({"orders": ORDERS, "deleted": MAILS})}
    queues, problems = queue_reader.queues(reader(answer), topics, {"orders": rows}.get)

    orders, deleted = queues
    assert ("g", "orders", [8, None, None, None]) == (
        orders.group_id,
        orders.topic,
        [it.share and it.share.held for it in orders.partitions],
    )
    assert ("deleted", []) == (deleted.topic, deleted.partitions)
    assert ("The state of partitions led by broker 2 is missing: broker 2 is down",) == problems


def test_a_page_asks_for_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Beyond the bound, queues are listed without their state, and the page says so.
    """
    monkeypatch.setattr(queue_reader, "PARTITIONS_MAX", 1)
    topics = {"g": ShareTopics({"mails": MAILS, "orders": ORDERS})}
    answer = share_describe.Response(shares=[share(held=8)])

    queues, problems = queue_reader.queues(reader(lambda *_: answer), topics, lambda _: [partition_row()])

    assert [8, None] == [it.total("held") for it in queues]
    assert ("Only the first 1 partitions of these queues are shown.",) == problems


def test_members_have_the_partitions_that_the_coordinator_assigned() -> None:
    """
    A member's partitions are listed by topic name.  A coordinator that refuses to describe the group is reported.
    """
    member = share_group_describe.Response.Group.Member
    assignment = member.Assignment(
        topic_partitions=[
            member.Assignment.TopicPartitions(topic_id=ORDERS, topic_name="orders", partitions=(2, 0)),
        ]
    )

    def group(code: int) -> share_group_describe.Response:
        return share_group_describe.Response(
            groups=[
                share_group_describe.Response.Group(
                    error_code=code,
                    group_id="g",
                    group_state="Stable",
                    group_epoch=1,
                    assignment_epoch=1,
                    assignor_name="simple",
                    members=[
                        member(
                            member_id="m",
                            member_epoch=1,
                            client_id="worker",
                            client_host="/127.0.0.1",
                            subscribed_topic_names=("orders",),
                            assignment=assignment,
                        )
                    ],
                )
            ]
        )

    (found,) = queue_reader.members(reader(lambda *_: group(0)), GROUP)

    assert ("m", "worker", "/127.0.0.1") == (found.member_id, found.client_id, found.host)
    assert [TopicPartition("orders", 2), TopicPartition("orders", 0)] == found.partitions
    with pytest.raises(ClientError, match="NOT_COORDINATOR"):
        queue_reader.members(reader(lambda *_: group(errors.NOT_COORDINATOR)), GROUP)
