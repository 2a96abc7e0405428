"""ShareGroupHeartbeat: joining, staying, fencing, assignments and sessions."""

from dataclasses import replace

import pytest

from tests.unit.coordinator.group.group_world import FLIGHTS_ID, TIDES_ID
from tests.unit.coordinator.share_group.share_world import ShareWorld
from tidemill.coordinator.group.requests import ForgetTopics
from tidemill.coordinator.share_group.log_records import Kind
from tidemill.coordinator.share_group.membership import SESSION, TOPICS_MAX
from tidemill.model import errors
from tidemill.model.share_group_config import ShareGroupConfig

INTERVAL_MS = 1_000
HEARTBEAT_MS = 5_000
SESSION_MS = 45_000


def test_the_first_member_creates_the_group_and_gets_everything():
    """A heartbeat with epoch 0 joins; the reply has the assignment, the epoch and the interval of heartbeats."""
    world = ShareWorld()

    taken = world.joined("m1")

    assert ("m1", 1, HEARTBEAT_MS) == (taken.member_id, taken.epoch, taken.heartbeat_interval_ms)
    assert {FLIGHTS_ID: (0, 1, 2, 3)} == taken.assignment
    assert (errors.NONE, None) == (taken.error_code, taken.error_message)


def test_a_heartbeat_without_news_appends_nothing():
    """Unchanged members send only their epoch; most heartbeats therefore cost no write."""
    world = ShareWorld()
    world.joined("m1")
    length = len(world.log)

    taken = world.beat("m1", 1)

    assert (1, HEARTBEAT_MS, None) == (taken.epoch, taken.heartbeat_interval_ms, taken.assignment)
    assert length == len(world.log)


def test_a_full_request_gets_the_assignment():
    """A client that sends its topics has lost its state, for example with its connection."""
    world = ShareWorld()
    world.joined("m1")

    taken = world.beat("m1", 1, topics=("flights",))

    assert {FLIGHTS_ID: (0, 1, 2, 3)} == taken.assignment
    assert 1 == world.shared().epoch


def test_members_take_partitions_without_waiting_for_each_other():
    """
    The new member gets its partitions as soon as the target is computed, although the old one still reads them: two
    members may share a partition.  The old member gives them up at its next heartbeat.
    """
    world = ShareWorld()
    world.joined("m1")
    world.wait(INTERVAL_MS)

    new = world.joined("m2")
    before = world.assignment("m1")
    old = world.beat("m1", 1)

    assert {FLIGHTS_ID: (2, 3)} == new.assignment
    assert {"flights": (0, 1, 2, 3)} == before
    assert (2, {FLIGHTS_ID: (0, 1)}) == (old.epoch, old.assignment)


def test_an_assignment_is_computed_once_per_interval():
    """
    A wave of joining members causes one assignment, not one each.  Members that wait are asked to return when the
    interval has passed; with Kafka's coordinator, they wait for a whole heartbeat interval.
    """
    world = ShareWorld()
    world.joined("m1")
    world.wait(300)

    waiting = world.joined("m2")
    world.wait(waiting.heartbeat_interval_ms)
    served = world.beat("m2", waiting.epoch)

    assert (1, 700, {}) == (waiting.epoch, waiting.heartbeat_interval_ms, waiting.assignment)
    assert (2, HEARTBEAT_MS) == (served.epoch, served.heartbeat_interval_ms)
    assert {FLIGHTS_ID: (2, 3)} == served.assignment


def test_a_waiting_member_does_not_return_too_often():
    """Near the end of the interval, a pause of at least 100 ms prevents a flood of heartbeats."""
    world = ShareWorld()
    world.joined("m1")
    world.wait(INTERVAL_MS - 1)

    assert 100 == world.joined("m2").heartbeat_interval_ms


def test_an_interval_of_0_never_waits():
    """`share.assignment.interval.ms=0` computes an assignment with each change, as Kafka did before 4.3."""
    world = ShareWorld()
    world.share_config = ShareGroupConfig(assignment_interval_ms=0)
    world.joined("m1")

    assert {FLIGHTS_ID: (2, 3)} == world.joined("m2").assignment


def test_an_empty_group_serves_its_first_member_at_once():
    """A lone consumer that restarts does not wait for the interval: there is nothing to combine its change with."""
    world = ShareWorld()
    world.joined("m1")
    world.beat("m1", -1)

    assert {FLIGHTS_ID: (0, 1, 2, 3)} == world.joined("m2").assignment


def test_more_members_than_partitions_share_them():
    """No member is idle."""
    world = ShareWorld()
    members = ("m1", "m2", "m3", "m4")
    for member_id in members:
        world.joined(member_id, "tides")

    assignments = world.rebalanced(*members)

    assert [(0,), (0,), (1,), (1,)] == sorted(given["tides"] for given in assignments.values())


# Epochs and fencing.


def test_the_previous_epoch_passes():
    """
    The response with the new epoch may be lost.  Without this rule, the member would be fenced; without the assignment
    in the second response, it would keep partitions that are no longer its own.
    """
    world = ShareWorld()
    world.joined("m1")
    world.wait(INTERVAL_MS)
    world.joined("m2")
    world.beat("m1", 1)  # this response is lost

    again = world.beat("m1", 1)

    assert (errors.NONE, 2, {FLIGHTS_ID: (0, 1)}) == (again.error_code, again.epoch, again.assignment)


@pytest.mark.parametrize("epoch", [1, 4, 100])
def test_any_other_epoch_is_fenced(epoch):
    """Another process uses the same member id, or the member has missed a removal: it must join again."""
    world = ShareWorld()
    world.joined("m1")
    for member_id in ("m2", "m3"):
        world.wait(INTERVAL_MS)
        world.joined(member_id)
        world.beat("m1", world.member("m1").epoch)

    fenced = world.beat("m1", epoch)

    assert (2, 3) == (world.member("m2").epoch, world.member("m1").epoch)
    assert errors.FENCED_MEMBER_EPOCH == fenced.error_code
    assert "rejoin" in fenced.error_message


def test_a_member_that_joins_again_keeps_its_place():
    """Epoch 0 is never fenced; without a change of subscription, nothing is assigned anew."""
    world = ShareWorld()
    world.joined("m1")

    again = world.joined("m1")

    assert (1, {FLIGHTS_ID: (0, 1, 2, 3)}) == (again.epoch, again.assignment)
    assert 1 == world.shared().epoch


def test_an_unknown_member_must_join():
    """The member was removed, and its partitions are assigned to others."""
    world = ShareWorld()
    world.joined("m1")

    assert errors.UNKNOWN_MEMBER_ID == world.beat("m2", 1).error_code
    assert errors.UNKNOWN_MEMBER_ID == world.beat("m2", -1).error_code


def test_only_joining_creates_a_group():
    """A heartbeat to a deleted group does not bring it back."""
    world = ShareWorld()

    codes = [world.beat("m1", epoch).error_code for epoch in (1, -1)]

    assert [errors.GROUP_ID_NOT_FOUND] * 2 == codes
    assert [] == world.log


@pytest.mark.parametrize("make", ["members", "offsets"])
def test_a_classic_group_has_no_share_members(make):
    """All types of groups have one id space: a group with members or offsets of the classic protocol keeps its type."""
    world = ShareWorld()
    if make == "members":
        world.join()
    else:
        world.commit()

    refused = world.beat("m1", 0, topics=("flights",))

    assert errors.GROUP_ID_NOT_FOUND == refused.error_code
    assert "is not a share group" in refused.error_message
    assert errors.GROUP_ID_NOT_FOUND == world.shared().error_code


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"member_id": ""}, "MemberId"),
        ({"member_id": "m" * 37}, "MemberId"),
        ({"group_id": ""}, "GroupId"),
        ({"group_id": "g" * 32_768}, "GroupId"),
        ({"rack": ""}, "RackId"),
        ({"epoch": -2}, "MemberEpoch"),
        ({"topics": None}, "SubscribedTopicNames"),
        ({"topics": ()}, "SubscribedTopicNames"),
        ({"topics": tuple(map(str, range(TOPICS_MAX + 1)))}, "at most 2000 topics"),
    ],
)
def test_a_malformed_request_is_refused(fields, says):
    """The message names the field; nothing is created."""
    world = ShareWorld()

    refused = world.beat(**{"member_id": "m1", "epoch": 0, "topics": ("flights",), **fields})

    assert errors.INVALID_REQUEST == refused.error_code
    assert says in refused.error_message
    assert [] == world.log


def test_a_member_may_have_the_longest_id():
    """Java's client and others send a UUID with hyphens: 36 characters."""
    assert errors.NONE == ShareWorld().joined("m" * 36).error_code


def test_a_full_group_refuses_new_members():
    """group.share.max.size bounds the memory of a group.  Members stay, and may join again."""
    world = ShareWorld(share_size_max=2)
    world.joined("m1")
    world.joined("m2")

    refused = world.beat("m3", 0, topics=("flights",))

    assert errors.GROUP_MAX_SIZE_REACHED == refused.error_code
    assert "group.share.max.size" in refused.error_message
    assert errors.NONE == world.joined("m2").error_code
    assert 2 == len(world.shared().members)


# Leaving and sessions.


def test_a_member_that_leaves_is_forgotten():
    """Its partitions go to the others; the reply has epoch −1."""
    world = ShareWorld()
    for member_id in ("m1", "m2"):
        world.joined(member_id)
    world.rebalanced("m1", "m2")

    left = world.beat("m2", -1)

    assert ("m2", -1, errors.NONE) == (left.member_id, left.epoch, left.error_code)
    assert {"m1": {"flights": (0, 1, 2, 3)}} == world.rebalanced("m1")
    assert ["m1"] == [member.member_id for member in world.shared().members]


def test_a_member_that_leaves_has_no_session():
    """A timer that nothing waits for would stay in memory for each member that ever left."""
    world = ShareWorld()
    world.joined("m1")
    before = [key for key in world.timers if "m1" in key]

    world.beat("m1", -1)

    assert [(SESSION, "g", "m1")] == before
    assert not [key for key in world.timers if "m1" in key]


def test_leaving_needs_no_epoch():
    """A member that has missed its last epoch can leave all the same."""
    world = ShareWorld()
    world.joined("m1")

    world.beat("m1", -1)

    assert "Empty" == world.shared().state


def test_a_silent_member_is_removed():
    """Its session ends `share.session.timeout.ms` after its last heartbeat."""
    world = ShareWorld()
    world.joined("m1")
    world.wait(40_000)
    world.beat("m1", 1)

    world.wait(SESSION_MS - 1)
    before = world.shared().state
    world.wait(1)

    assert ("Stable", "Empty") == (before, world.shared().state)
    assert errors.UNKNOWN_MEMBER_ID == world.beat("m1", 1).error_code


def test_a_session_follows_the_configuration():
    """A changed timeout applies from the next heartbeat on."""
    world = ShareWorld()
    world.joined("m1")
    world.share_config = replace(world.share_config, session_timeout_ms=60_000)
    world.beat("m1", 1)

    world.wait(59_999)
    before = world.shared().state
    world.wait(1)

    assert ("Stable", "Empty") == (before, world.shared().state)


def test_a_refused_heartbeat_does_not_renew_a_session():
    """A process with a stale epoch cannot keep the place of a member that is gone."""
    world = ShareWorld()
    world.joined("m1")
    world.wait(SESSION_MS - 1)

    world.beat("m1", 9)
    world.wait(1)

    assert "Empty" == world.shared().state


# Changes of leader.


def test_a_group_survives_a_change_of_leader():
    """Members, epochs and assignments are in the log; members notice nothing."""
    world = ShareWorld()
    for member_id in ("m1", "m2"):
        world.joined(member_id, rack="r1")
    world.rebalanced("m1", "m2")
    before = world.shared()

    world.restart()
    taken = world.beat("m2", 2)

    assert before == world.shared()
    assert (2, None) == (taken.epoch, taken.assignment)


def test_a_new_leader_gives_every_member_a_whole_session():
    """The last heartbeats reached the earlier leader."""
    world = ShareWorld()
    world.joined("m1")
    world.wait(SESSION_MS - 1)

    world.restart()
    world.wait(SESSION_MS - 1)
    before = world.shared().state
    world.wait(1)

    assert ("Stable", "Empty") == (before, world.shared().state)


def beat_again(world, **fields):
    return world.beat("m1", world.member("m1").epoch, **fields)


CHANGES = {  # of a group of m1 and m2: who asks for it, and the change
    "join": ("m3", lambda world: world.joined("m3", "flights", "tides")),
    "leave": ("m2", lambda world: world.beat("m2", -1)),
    "subscribe": ("m1", lambda world: beat_again(world, topics=("flights", "tides"))),
    "unsubscribe": ("m1", lambda world: beat_again(world, topics=("tides",))),
    "add partitions": ("m1", lambda world: (world.create_topic("flights", 8, FLIGHTS_ID), beat_again(world))),
    "delete topic": (
        "the host",
        lambda world: (
            world.topic_ids.pop("flights", None),
            world.ask(ForgetTopics(topic_ids=frozenset({FLIGHTS_ID}))),
        ),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_repeated", [False, True])
def test_each_prefix_of_a_change_is_a_valid_log(name, is_repeated):
    """
    A leader may lose its leadership after a part of a change is committed, because a large change fills several
    batches.  The client then repeats its request, or stays silent.  With the heartbeats of the others, the group
    converges: every partition of a subscribed topic has a member.
    """
    asker, change = CHANGES[name]
    world = ShareWorld()
    for member_id in ("m1", "m2"):
        world.joined(member_id)
    world.open("tides", may_create=True)  # The group knows tides, so a subscription to it does not change its topics.
    world.rebalanced("m1", "m2")
    world.wait(INTERVAL_MS)
    length = len(world.log)
    change(world)
    whole = world.log
    assert len(whole) > length

    for end in range(length, len(whole) + 1):
        world.log = whole[:end]
        world.restart()
        if is_repeated:
            change(world)
        silent = () if is_repeated else (asker,)
        for _ in range(SESSION_MS // HEARTBEAT_MS + 1):
            world.wait(HEARTBEAT_MS)
            for member in world.shared().members:
                if member.member_id not in silent:
                    world.beat(member.member_id, member.epoch)
        members = {member.member_id: member.topics for member in world.shared().members}
        found = world.rebalanced(*members)
        for topic in {topic for topics in members.values() for topic in topics} & world.topic_ids.keys():
            numbers = sorted(number for given in found.values() for number in given.get(topic, ()))
            assert list(range(world.partition_counts[topic])) == numbers, f"{topic} after {end - length} records"
        if name == "delete topic" and is_repeated:
            targets = world.groups._state.share.groups["g"].targets
            assert all(FLIGHTS_ID not in target for target in targets.values())


# Subscriptions and topics.


def test_a_changed_subscription_changes_the_assignment():
    """The group epoch increases, and the next assignment follows the new subscriptions."""
    world = ShareWorld()
    world.joined("m1")
    world.wait(INTERVAL_MS)

    taken = world.beat("m1", 1, topics=("tides", "tides"))

    assert (2, {TIDES_ID: (0, 1)}) == (taken.epoch, taken.assignment)
    assert ("tides",) == world.member("m1").topics


def test_an_unsubscribed_topic_leaves_at_once():
    """
    Within the assignment interval, no new target is computed; but a member never owns partitions of a topic that it
    does not read.
    """
    world = ShareWorld()
    world.joined("m1", "flights", "tides")

    taken = world.beat("m1", 1, topics=("tides",))

    assert (1, {TIDES_ID: (0, 1)}) == (taken.epoch, taken.assignment)
    assert (2, 1) == (world.shared().epoch, world.shared().assignment_epoch)


def test_a_member_may_read_nothing():
    """An empty subscription is legal after the join."""
    world = ShareWorld()
    world.joined("m1")

    assert {} == world.beat("m1", 1, topics=()).assignment


def test_a_topic_may_be_created_later():
    """The subscription names a topic that does not exist; the first heartbeat after its creation assigns it."""
    world = ShareWorld()
    joined = world.joined("m1", "later")
    world.create_topic("later", 2)

    assert {} == joined.assignment
    assert {"m1": {"later": (0, 1)}} == world.rebalanced("m1")


def test_added_partitions_are_assigned():
    """KAFKA-20742: partitions that were added to a topic were skipped."""
    world = ShareWorld()
    world.joined("m1", "tides")
    world.partition_counts["tides"] = 3

    assert {"m1": {"tides": (0, 1, 2)}} == world.rebalanced("m1")


def test_a_deleted_topic_is_unassigned():
    """KAFKA-20533: the group forgets the topic, and its members get a new assignment."""
    world = ShareWorld()
    world.joined("m1", "flights", "tides")

    world.delete_topic("tides")

    assert {"m1": {"flights": (0, 1, 2, 3)}} == world.rebalanced("m1")
    assert 2 == world.shared().epoch
    assert {FLIGHTS_ID} == world.groups.topic_ids()


def test_a_recreated_topic_is_another_topic():
    """The member gets the new topic's id: nothing of the old topic's state applies to it."""
    world = ShareWorld()
    world.joined("m1", "later", "tides")
    world.delete_topic("tides")
    world.create_topic("tides", 1)

    world.rebalanced("m1")
    taken = world.beat("m1", world.member("m1").epoch, topics=("tides",))

    assert [(0,)] == list(taken.assignment.values())
    assert TIDES_ID not in taken.assignment


def test_other_fields_change_no_epoch():
    """A client that moves to another host is recorded, but nothing is assigned anew.  A null rack is unchanged."""
    world = ShareWorld()
    world.joined("m1", rack="r1")
    length = len(world.log)

    world.beat("m1", 1, client_host="/10.0.0.7")

    member = world.member("m1")
    assert ("/10.0.0.7", "r1", 1) == (member.client_host, member.rack, world.shared().epoch)
    assert [Kind.MEMBER] == world.kinds_since(length)


# Heartbeats while the disk is full.


@pytest.mark.parametrize(
    ("fields", "is_served"),
    [
        ({}, True),
        ({"topics": ("flights",)}, True),
        ({"rack": "r1"}, True),
        ({"member_id": "m2"}, False),
        ({"epoch": 0, "topics": ("flights",)}, False),
        ({"epoch": -1}, False),
        ({"topics": ("tides",)}, False),
        ({"client_host": "/10.0.0.7"}, False),
        ({"rack": "r2"}, False),
    ],
)
def test_a_heartbeat_that_appends_nothing_is_served_by_a_full_disk(fields, is_served):
    """Refusing every heartbeat of a full broker would end every session as soon as there is space again."""
    world = ShareWorld()
    world.joined("m1", rack="r1")
    request = world.heartbeating(**{"member_id": "m1", "epoch": 1, **fields})
    length = len(world.log)

    served = world.groups.appends_nothing(request)
    world.ask(request)

    assert is_served == served
    assert not served or length == len(world.log)


@pytest.mark.parametrize("change", ["a member joined", "partitions were added"])
def test_a_heartbeat_that_would_assign_is_not_served_by_a_full_disk(change):
    """A new assignment is logged before a member gets it."""
    world = ShareWorld()
    world.joined("m1")
    if change == "a member joined":
        world.joined("m2")
    else:
        world.partition_counts["flights"] = 5

    assert not world.groups.appends_nothing(world.heartbeating("m1", 1))
