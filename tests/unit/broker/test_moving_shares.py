"""Share groups on a cluster: coordinator and leaders are different brokers, and move."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.lone_consumer import ResolvesShares, received
from tests.unit.broker.share_member import Got, ShareMember, acquired_records, configure_group
from tests.unit.broker.sharing_cluster import elect_another, sharing_cluster
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import errors
from tidemill.peer import share_close, share_open
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.share_session import FINAL_EPOCH
from tidemill.wire.messages import delete_groups, describe_share_group_offsets

WAIT_MS = 500


@pytest.fixture
def world() -> ClusterWorld:
    """A cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    made = sharing_cluster()
    configure_group(made.controller, share_auto_offset_reset="earliest")
    return made


def joined(world: ClusterWorld, name: str = "m") -> ShareMember:
    member = ShareMember(world[2], name, coordinator=world[1])
    member.join("jobs")
    return member


def start(world: ClusterWorld, number: int) -> int | None:
    """Return the start of the group's share according to a broker; None if it has no share."""
    share = shares_of(world[number].partition("jobs")).of_group("g")
    return None if share is None else share.start


def test_the_leader_asks_a_coordinator_on_another_broker(world: ClusterWorld) -> None:
    """
    The first fetch opens the share with the start that the coordinator has answered, on every replica.
    """
    member = joined(world)
    world[2].produce("jobs", b"a", b"b")

    assert [Got(0, b"a", 1), Got(1, b"b", 1)] == member.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == member.acknowledge(0, 0)
    world.pass_time(500)
    assert [1, 1, 1] == [start(world, number) for number in (1, 2, 3)]


def test_another_leader_goes_on(world: ClusterWorld) -> None:
    """
    The next leader delivers what is not accepted; only deliveries that have ended count.  A fetch that waits at the old
    leader is answered, and a later one with the new leader.
    """
    member = joined(world)
    world[2].produce("jobs", b"a", b"b", b"c")
    member.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == member.acknowledge(0, 0)
    assert errors.NONE == member.acknowledge(1, 1, Acknowledgement.RELEASE)
    member.receive()
    sent = member.client.send(member.fetch_request(max_wait_ms=WAIT_MS))
    world.lead("jobs", by=3)

    answer = member.client.answer(*sent)
    assert answer is not None, "the fetch still waits"
    (partition,) = answer.responses[0].partitions
    assert errors.NOT_LEADER_OR_FOLLOWER == partition.error_code
    member.session_epoch += 1
    answer = member.fetch()
    (partition,) = answer.responses[0].partitions
    assert 3 == partition.current_leader.leader_id == answer.node_endpoints[0].node_id
    assert [Got(1, b"b", 2), Got(2, b"c", 1)] == member.at(world[3]).receive(max_wait_ms=WAIT_MS)


def test_an_acknowledgement_that_is_not_committed_is_not_answered_as_success(world: ClusterWorld) -> None:
    """
    A leader that is cut off answers its acknowledgements with NOT_LEADER_OR_FOLLOWER, and the next one delivers the
    records again.
    """
    member = joined(world)
    world[2].produce("jobs", b"a")
    member.receive(max_wait_ms=WAIT_MS)
    world.cut_off(2)
    request = member.fetch_request({0: [(0, 0, Acknowledgement.ACCEPT)]}, max_wait_ms=WAIT_MS)
    sent = member.client.send(request)
    world.until(lambda: world[3].shard("jobs").is_serving or world[1].shard("jobs").is_serving, "another leader")
    leader = world[3] if world[3].shard("jobs").is_serving else world[1]

    assert [Got(0, b"a", 1)] == member.at(leader).receive(max_wait_ms=WAIT_MS)
    world.heal()
    world.pass_time(5_000)
    answer = member.client.answer(*sent)
    assert errors.NOT_LEADER_OR_FOLLOWER == answer.responses[0].partitions[0].acknowledge_error_code
    assert [] == [*answer.responses[0].partitions[0].acquired_records]


def test_an_acknowledgement_that_commits_without_its_leader_counts(world: ClusterWorld) -> None:
    """
    The row of an acknowledgement reaches a majority, and the leader loses its leadership before it learns that.  The
    next leader does not deliver the record again.
    """
    member = joined(world)
    world[2].produce("jobs", b"a", b"b")
    member.receive(max_wait_ms=WAIT_MS)
    world.hold(to=[2])
    sent = member.client.send(member.fetch_request({0: [(0, 0, Acknowledgement.ACCEPT)]}))
    world.stabilize()
    assert member.client.answer(*sent) is None, "the leader cannot know that the row is committed"

    leader = elect_another(world)

    (partition,) = member.client.answer(*sent).responses[0].partitions
    assert errors.NOT_LEADER_OR_FOLLOWER == partition.acknowledge_error_code
    assert [Got(1, b"b", 1)] == member.at(world[leader]).receive(max_wait_ms=WAIT_MS)


@pytest.mark.parametrize("fetches", [False, True], ids=["no fetch", "a fetch without acknowledgement"])
def test_the_start_is_in_the_log_before_the_first_record(world: ClusterWorld, fetches: bool) -> None:
    """
    A group that begins at the end gets all records since its first fetch, although the leader has moved before the
    first acknowledgement.
    """
    configure_group(world.controller, share_auto_offset_reset="latest")
    member = joined(world)
    world[2].produce("jobs", b"old")
    assert [] == member.receive()
    world[2].produce("jobs", b"a")
    if fetches:
        assert [Got(1, b"a", 1)] == member.receive()

    world.lead("jobs", by=3)
    world[3].produce("jobs", b"b")

    assert [Got(1, b"a", 1), Got(2, b"b", 1)] == member.at(world[3]).receive(max_wait_ms=WAIT_MS)


def test_offsets_are_those_of_the_leaders(world: ClusterWorld) -> None:
    """
    The coordinator returns start and lag of each partition from its leader.  Offsets that are finished behind the start
    are not part of the lag.  A partition that the group has not read has the start -1, and one that does not exist an
    error.
    """
    member = joined(world)
    world.create("other", brokers=(3, 1, 2))
    world[2].produce("jobs", b"a", b"b", b"c", b"d")
    member.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == member.acknowledge(0, 0) == member.acknowledge(2, 2)
    asked = describe_share_group_offsets.Request.Group

    def offsets(group: str, topics: list[tuple[str, list[int]]] | None) -> Any:
        named = None if topics is None else [asked.Topic(topic_name=name, partitions=them) for name, them in topics]
        request = describe_share_group_offsets.Request(groups=[asked(group_id=group, topics=named)])
        (answer,) = world[1].ask(request).groups
        found = {
            (topic.topic_name, it.partition_index): (it.error_code, it.start_offset, it.lag)
            for topic in answer.topics
            for it in topic.partitions
        }
        return answer.error_code, found

    assert (errors.NONE, {("jobs", 0): (0, 1, 2)}) == offsets("g", None)
    assert {
        ("other", 0): (0, -1, -1),
        ("jobs", 7): (errors.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        ("none", 0): (errors.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    } == offsets("g", [("other", [0]), ("jobs", [7]), ("none", [0])])[1]
    assert (errors.GROUP_ID_NOT_FOUND, {}) == offsets("unknown", None)


def delete_group(world: ClusterWorld, member: ShareMember) -> None:
    """Let the only member of the group leave, and delete the group."""
    if member.session_epoch:
        assert [] == acquired_records(member.client.ask(member.fetch_request(share_session_epoch=FINAL_EPOCH)))
    member.member_epoch = -1
    member.heartbeat()
    (deleted,) = world[1].ask(delete_groups.Request(groups_names=["g"])).results
    assert errors.NONE == deleted.error_code


def test_a_deleted_group_begins_anew(world: ClusterWorld) -> None:
    """
    The leaders remove the shares of a deleted group.  A group with the same id begins where a new group begins.
    """
    member = joined(world)
    world[2].produce("jobs", b"a", b"b")
    member.receive(max_wait_ms=WAIT_MS)
    member.acknowledge(0, 1)

    delete_group(world, member)

    world.pass_time(3_000)
    assert [None, None, None] == [start(world, number) for number in (1, 2, 3)]
    again = joined(world)
    assert [Got(0, b"a", 1), Got(1, b"b", 1)] == again.receive(max_wait_ms=WAIT_MS)


def test_a_deleted_group_begins_anew_although_its_leader_was_away(world: ClusterWorld) -> None:
    """
    The request to remove the group's share does not reach the leader before the group exists again.  The first fetch
    replaces the old share, and the request, when it arrives, does not remove the new one.
    """
    member = joined(world)
    world[2].produce("jobs", b"a", b"b")
    member.receive(max_wait_ms=WAIT_MS)
    member.acknowledge(0, 1)
    with unreachable_leaders(world):
        delete_group(world, member)
        world.pass_time(3_000)
        assert 2 == start(world, 2)
        again = joined(world)

        assert [Got(0, b"a", 1), Got(1, b"b", 1)] == again.receive(max_wait_ms=WAIT_MS)

    world.pass_time(3_000)
    hosted = world[1].broker.coordinators.of(GROUPS).hosted()
    assert [] == [share for it in hosted for share in it.core.groups.shares_to_close()]
    assert errors.NONE == again.acknowledge(0, 0)
    assert 1 == start(world, 2)


@contextmanager
def unreachable_leaders(world: ClusterWorld) -> Iterator[None]:
    """Lose the requests to remove shares that broker 1 sends to other brokers."""
    peers = world[1].broker.cluster.peers
    ask = peers.ask

    def losing(voter: Any, api: Any, *args: Any, **kwargs: Any) -> bool:
        return api is not share_close.API and ask(voter, api, *args, **kwargs)

    with patch.object(peers, "ask", losing):
        yield


@pytest.mark.parametrize("is_open", [True, False], ids=["the newer share is open", "the newer share is proposed"])
def test_a_late_answer_of_the_coordinator_changes_nothing(world: ClusterWorld, is_open: bool) -> None:
    """
    The leader has asked for a group that was deleted and created again before the answer arrived.  A later question has
    opened the share of the new group, or its row is proposed: the old answer does not replace it.
    """
    world[2].produce("jobs", b"a", b"b")
    member, lone = joined(world), ResolvesShares(world[2], "w")
    with held_answers(world) as held:
        assert [] == member.receive()
        delete_group(world, member)
        joined(world, "again")
        sent = lone.client.send(lone.receive_request(max_wait_ms=WAIT_MS))
        world.stabilize()
    old, new = held

    new.arrive()
    if is_open:
        world.stabilize()
        assert [Got(0, b"a", 1), Got(1, b"b", 1)] == received(lone.client.answer(*sent))
        assert (1, 0, 0) == lone.counts((0, 0, Acknowledgement.ACCEPT))
    old.arrive()
    world.pass_time(WAIT_MS)

    share = shares_of(world[2].partition("jobs")).of_group("g")
    assert share is not None
    assert old.response.incarnation < new.response.incarnation == share.incarnation
    assert int(is_open) == share.start


class HeldAnswer(NamedTuple):
    response: share_open.Response
    arrive: Callable[[], None]


@contextmanager
def held_answers(world: ClusterWorld) -> Iterator[list[HeldAnswer]]:
    """Hold back the coordinator's answers to the questions of broker 2 about shares.  Yield them."""
    held: list[HeldAnswer] = []
    peers = world[2].broker.cluster.peers
    ask = peers.ask

    def holding(voter: Any, api: Any, request: Any, answered: Callable[[Any], None], **kwargs: Any) -> bool:
        if api is not share_open.API:
            return ask(voter, api, request, answered, **kwargs)
        return ask(voter, api, request, lambda it: held.append(HeldAnswer(it, partial(answered, it))), **kwargs)

    with patch.object(peers, "ask", holding):
        yield held
