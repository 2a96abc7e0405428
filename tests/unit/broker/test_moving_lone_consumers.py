"""Consumers without a session on a cluster: coordinator and leaders are different brokers, and move."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.lone_consumer import ResolvesShares, received
from tests.unit.broker.share_member import STATIC, Got, configure_group
from tests.unit.broker.sharing_cluster import elect_another
from tidemill.model import errors
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.peer import share_describe, share_receive, share_resolve
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.wire.messages import find_coordinator

ACCEPT, RELEASE = Acknowledgement.ACCEPT, Acknowledgement.RELEASE


@pytest.fixture
def world() -> ClusterWorld:
    """A cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    made = ClusterWorld(static={**STATIC, "offsets.topic.num.partitions": "1"})
    made.create("jobs", brokers=(2, 1, 3))
    made[1].ask(find_coordinator.Request(coordinator_keys=["g"]))
    made.lead(OFFSETS_TOPIC, by=1)
    made.lead("jobs", by=2)
    configure_group(made.controller, share_auto_offset_reset="earliest")
    return made


def test_the_next_leader_counts_what_is_finished(world: ClusterWorld) -> None:
    """
    A resolve that is repeated with the next leader finds its records finished.  What was only held is available again.
    """
    consumer = ResolvesShares(world[2], "w")
    world[2].produce("jobs", b"a", b"b")
    assert [Got(0, b"a", 1), Got(1, b"b", 1)] == consumer.receive()
    assert (1, 0, 0) == consumer.counts((0, 0, ACCEPT))
    world.lead("jobs", by=3)

    assert errors.NOT_LEADER_OR_FOLLOWER == consumer.resolve((0, 0, ACCEPT)).error_code
    moved = ResolvesShares(world[3], "w")
    assert (0, 1, 0) == moved.counts((0, 1, ACCEPT))
    assert [Got(1, b"b", 1)] == moved.receive()


def test_a_decision_that_is_lost_is_not_reported_as_success(world: ClusterWorld) -> None:
    """
    A decision whose row has not committed when leadership ends is answered with NOT_LEADER_OR_FOLLOWER: its outcome is
    unknown.  A receive that waits gets the same error.
    """
    consumer, other = ResolvesShares(world[2], "w"), ResolvesShares(world[2], "other")
    world[2].produce("jobs", b"a")
    consumer.receive()
    world.hold(sender=[2])
    sent = consumer.client.send(consumer.resolve_request((0, 0, ACCEPT)))
    waiting = other.client.send(other.receive_request(max_wait_ms=60_000))
    world.stabilize()
    assert consumer.client.answer(*sent) is None
    world.cut_off(2)
    world.stabilize()

    assert errors.NOT_LEADER_OR_FOLLOWER == consumer.client.answer(*sent).error_code
    assert errors.NOT_LEADER_OR_FOLLOWER == other.client.answer(*waiting).error_code


def test_a_row_that_commits_without_its_leader_counts_as_finished(world: ClusterWorld) -> None:
    """
    The row of a decision reaches a majority, and the leader loses its leadership before it learns that.  The client is
    told that the outcome is unknown, and the next leader finds the record finished.
    """
    consumer = ResolvesShares(world[2], "w")
    world[2].produce("jobs", b"a", b"b")
    assert [Got(0, b"a", 1), Got(1, b"b", 1)] == consumer.receive()
    world.hold(to=[2])
    sent = consumer.client.send(consumer.resolve_request((0, 0, ACCEPT)))
    world.stabilize()
    assert consumer.client.answer(*sent) is None, "the leader cannot know that the row is committed"

    leader = elect_another(world)

    assert errors.NOT_LEADER_OR_FOLLOWER == consumer.client.answer(*sent).error_code
    moved = ResolvesShares(world[leader], "w")
    assert (0, 1, 0) == moved.counts((0, 0, ACCEPT))
    assert [Got(1, b"b", 1)] == moved.receive()


def test_brokers_ask_each_other(world: ClusterWorld) -> None:
    """
    The leader answers the same requests on the links between brokers.
    """
    world[2].produce("jobs", b"a")
    consumer = ResolvesShares(world[2], "w")
    leader = world[1].broker.image.brokers[world[2].broker.broker_id].voter
    answers: list[object] = []
    asked = share_describe.Request.Partition(topic_id=consumer.topic_id, partition=0)
    for api, request in (
        (share_receive.API, consumer.receive_request()),
        (share_describe.API, share_describe.Request(group_id="g", partitions=[asked])),
        (share_resolve.API, consumer.resolve_request((0, 0, ACCEPT))),
    ):
        assert world[1].broker.cluster.peers.ask(leader, api, request, answers.append)
        world.pass_time(1_000)

    got, described, resolved = answers
    assert isinstance(got, share_receive.Response)
    assert [Got(0, b"a", 1)] == received(got)
    assert isinstance(described, share_describe.Response)
    assert (1, 1) == (described.shares[0].held, described.shares[0].lag)
    assert isinstance(resolved, share_resolve.Response)
    assert 1 == resolved.resolved
