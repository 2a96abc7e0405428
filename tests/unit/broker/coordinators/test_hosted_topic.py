"""The coordinator of an internal topic follows the leadership of the topic's partitions."""

from typing import Any

import pytest

from tests.toy.member_sets import MEMBER_SETS, Add, Await, Read, Rejected, Request
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.model import errors

TOPIC = MEMBER_SETS.topic.name
KEY = "k"


def begin(world: ClusterWorld, number: int, request: Request) -> list[Any]:
    """Send a request to the toy coordinator on broker `number`, and return the list that will receive the reply."""
    replies: list[Any] = []
    world[number].broker.coordinators.of(MEMBER_SETS).ask(KEY, request, replies.append)
    return replies


def ask(world: ClusterWorld, number: int, request: Request) -> Any:
    replies = begin(world, number, request)
    world.until(lambda: bool(replies), "it is answered")
    (reply,) = replies
    return reply


@pytest.fixture
def world() -> ClusterWorld:
    """Return a cluster in which broker 1 leads the only partition of the toy coordinator's topic."""
    world = ClusterWorld(static={"offsets.topic.num.partitions": "1"}, extra_coordinators=(MEMBER_SETS,))
    ask(world, 1, Read(KEY))  # creates the topic
    world.until(lambda: world.led_by(TOPIC) != 0, "the partition is led")
    world.lead(TOPIC, by=1)
    return world


def test_a_former_leader_rejects_what_is_parked(world: ClusterWorld) -> None:
    """
    A broker that loses leadership rejects its parked requests.  The next leader does not know about them, so the
    clients must send them again.
    """
    parked = begin(world, 1, Await(KEY, "a"))
    world.stabilize()
    early = [*parked]

    world.lead(TOPIC, by=2)

    assert ([], [Rejected(errors.NOT_COORDINATOR)]) == (early, parked)
    assert [] == world[1].broker.coordinators.of(MEMBER_SETS).hosted()


def test_a_deadline_ends_with_the_leadership_in_which_it_was_set(world: ClusterWorld) -> None:
    """
    The next leader may have set another deadline, so the old one must not fire, not even when the first broker leads
    again.
    """
    ask(world, 1, Add(KEY, ("a",), lifetime_ms=5_000))
    world.lead(TOPIC, by=2)
    world.lead(TOPIC, by=1)
    end_offset = world[1].partition(TOPIC).log.end_offset

    world.pass_time(10_000)

    assert 1 == world.led_by(TOPIC)
    assert end_offset == world[1].partition(TOPIC).log.end_offset
    assert ("a",) == ask(world, 1, Read(KEY))


@pytest.mark.parametrize(("stops", "logged"), [(False, 1), (True, 0)])
def test_a_stop_ends_the_creation_of_a_topic_without_an_error(stops: bool, logged: int) -> None:
    """A broker that stops answers the requests that wait for the topic, and logs no error."""
    world = ClusterWorld(static={"offsets.topic.num.partitions": "1"}, extra_coordinators=(MEMBER_SETS,))
    alone = next(number for number in (1, 2, 3) if world[number] is not world.controller)
    replies = begin(world, alone, Read(KEY))
    early = [*replies]
    if stops:
        world[alone].broker.coordinators.stop()
    world.cut_off(alone)
    world.pass_time(60_000)

    assert ([], [Rejected(errors.COORDINATOR_NOT_AVAILABLE)]) == (early, replies)
    assert logged == sum("internal topic not created" in line for line in world[alone].events)
