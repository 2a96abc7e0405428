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
    """
    A heartbeat with epoch 0 joins the group and creates it if needed.  The only member gets all partitions; the reply
    also contains its epoch and the heartbeat interval.
    """
    world = ShareWorld()

    taken = world.joined("m1")

    assert ("m1", 1, HEARTBEAT_MS) == (taken.member_id, taken.epoch, taken.heartbeat_interval_ms)
    assert {FLIGHTS_ID: (0, 1, 2, 3)} == taken.assignment
    assert (errors.NONE, None) == (taken.error_code, taken.error_message)


def test_a_heartbeat_without_news_appends_nothing():
    """A member without changes sends only its epoch, as in most heartbeats.  Such a heartbeat appends no record."""
    world = ShareWorld()
    world.joined("m1")
    length = len(world.log)

    taken = world.beat("m1", 1)

    assert (1, HEARTBEAT_MS, None) == (taken.epoch, taken.heartbeat_interval_ms, taken.assignment)
    assert length == len(world.log)


def test_a_full_request_gets_the_assignment():
    """
    A heartbeat that names the subscribed topics is answered with the whole assignment, because the client may have lost
    its state, for example with its connection.
    """
    world = ShareWorld()
    world.joined("m1")

    taken = world.beat("m1", 1, topics=("flights",))

    assert {FLIGHTS_ID: (0, 1, 2, 3)} == taken.assignment
    assert 1 == world.shared().epoch


def test_members_take_partitions_without_waiting_for_each_other():
    """
    A new member gets its partitions as soon as the target assignment is computed, although an older member still reads
    them: two members of a share group may read the same partition.  The older member gives them up at its next
    heartbeat.
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
    Members that join within one assignment interval cause a single new assignment.  A member that must wait for it is
    told to send its next heartbeat when the interval has passed; Kafka's coordinator makes the member wait for a whole
    heartbeat interval.
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
    """
    A member that joins just before the end of the assignment interval is told to wait at least 100 ms, which prevents a
    flood of heartbeats.
    """
    world = ShareWorld()
    world.joined("m1")
    world.wait(INTERVAL_MS - 1)

    assert 100 == world.joined("m2").heartbeat_interval_ms


def test_an_interval_of_0_never_waits():
    """
    With `share.assignment.interval.ms=0`, every change leads to a new assignment immediately, as in Kafka before 4.3.
    """
    world = ShareWorld()
    world.share_config = ShareGroupConfig(assignment_interval_ms=0)
    world.joined("m1")

    assert {FLIGHTS_ID: (2, 3)} == world.joined("m2").assignment


def test_an_empty_group_serves_its_first_member_at_once():
    """
    The first member of an empty group gets its assignment immediately, even within the assignment interval, because
    there are no changes by other members to wait for.
    """
    world = ShareWorld()
    world.joined("m1")
    world.beat("m1", -1)

    assert {FLIGHTS_ID: (0, 1, 2, 3)} == world.joined("m2").assignment


def test_more_members_than_partitions_share_them():
    """If a group has more members than partitions, several members share each partition, so that no member is idle."""
    world = ShareWorld()
    members = ("m1", "m2", "m3", "m4")
    for member_id in members:
        world.joined(member_id, "tides")

    assignments = world.rebalanced(*members)

    assert [(0,), (0,), (1,), (1,)] == sorted(given["tides"] for given in assignments.values())


# Epochs and fencing.


def test_the_previous_epoch_passes():
    """
    A heartbeat with the member's previous epoch is accepted, because the response with the new epoch may have been
    lost.  The reply repeats the new epoch and the assignment; otherwise, the member would keep partitions that are no
    longer its own.
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
    """
    A heartbeat with an epoch that is neither 0 nor the member's current or previous one is fenced, and the member must
    join again: another process uses the same member id, or the member does not know that it was removed.
    """
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
    """
    A heartbeat with epoch 0 from an existing member is never fenced.  If its subscription is unchanged, the member
    keeps its assignment.
    """
    world = ShareWorld()
    world.joined("m1")

    again = world.joined("m1")

    assert (1, {FLIGHTS_ID: (0, 1, 2, 3)}) == (again.epoch, again.assignment)
    assert 1 == world.shared().epoch


def test_an_unknown_member_must_join():
    """
    A heartbeat from a member that the group does not know, for example because it was removed, is refused with
    UNKNOWN_MEMBER_ID.
    """
    world = ShareWorld()
    world.joined("m1")

    assert errors.UNKNOWN_MEMBER_ID == world.beat("m2", 1).error_code
    assert errors.UNKNOWN_MEMBER_ID == world.beat("m2", -1).error_code


def test_only_joining_creates_a_group():
    """
    A heartbeat to a group that does not exist is refused unless it has epoch 0, so a late heartbeat does not bring a
    deleted group back.
    """
    world = ShareWorld()

    codes = [world.beat("m1", epoch).error_code for epoch in (1, -1)]

    assert [errors.GROUP_ID_NOT_FOUND] * 2 == codes
    assert [] == world.log


@pytest.mark.parametrize("make", ["members", "offsets"])
def test_a_classic_group_has_no_share_members(make):
    """
    A group with classic members or committed offsets refuses share members, because groups of all types share one id
    space and a group keeps its type.
    """
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
    """A malformed heartbeat is refused with a message that names the invalid field, and no record is written."""
    world = ShareWorld()

    refused = world.beat(**{"member_id": "m1", "epoch": 0, "topics": ("flights",), **fields})

    assert errors.INVALID_REQUEST == refused.error_code
    assert says in refused.error_message
    assert [] == world.log


def test_a_group_that_sends_dead_letters_back_has_no_members():
    world = ShareWorld()

    refused = world.beat("m1", 0, group_id="__redrive.orders", topics=("flights",))

    assert errors.INVALID_GROUP_ID == refused.error_code
    assert "use another group id" in refused.error_message
    assert [] == world.log


def test_a_member_may_have_the_longest_id():
    """A member id may have 36 characters, the length of a UUID with hyphens, which Java's client and others send."""
    assert errors.NONE == ShareWorld().joined("m" * 36).error_code


def test_a_full_group_refuses_new_members():
    """
    A group that has group.share.max.size members refuses new ones, which bounds its memory.  Existing members stay, and
    may join again.
    """
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
    """A member that leaves gets a reply with epoch −1, and the remaining members get its partitions."""
    world = ShareWorld()
    for member_id in ("m1", "m2"):
        world.joined(member_id)
    world.rebalanced("m1", "m2")

    left = world.beat("m2", -1)

    assert ("m2", -1, errors.NONE) == (left.member_id, left.epoch, left.error_code)
    assert {"m1": {"flights": (0, 1, 2, 3)}} == world.rebalanced("m1")
    assert ["m1"] == [member.member_id for member in world.shared().members]


def test_a_member_that_leaves_has_no_session():
    """
    The session timer of a member that leaves is removed; otherwise, a timer for each former member would stay in
    memory.
    """
    world = ShareWorld()
    world.joined("m1")
    before = [key for key in world.timers if "m1" in key]

    world.beat("m1", -1)

    assert [(SESSION, "g", "m1")] == before
    assert not [key for key in world.timers if "m1" in key]


def test_leaving_needs_no_epoch():
    """A member can leave without knowing its current epoch, for example if the response with that epoch was lost."""
    world = ShareWorld()
    world.joined("m1")

    world.beat("m1", -1)

    assert "Empty" == world.shared().state


def test_a_silent_member_is_removed():
    """A member is removed from its group `share.session.timeout.ms` after its last heartbeat."""
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
    """A changed session timeout applies to a member from its next heartbeat on."""
    world = ShareWorld()
    world.joined("m1")
    world.share_config = replace(world.share_config, session_timeout_ms=60_000)
    world.beat("m1", 1)

    world.wait(59_999)
    before = world.shared().state
    world.wait(1)

    assert ("Stable", "Empty") == (before, world.shared().state)


def test_a_refused_heartbeat_does_not_renew_a_session():
    """
    A heartbeat with a wrong epoch is refused and does not renew the session, so a process with a stale epoch cannot
    keep a member in the group after the real one has gone.
    """
    world = ShareWorld()
    world.joined("m1")
    world.wait(SESSION_MS - 1)

    world.beat("m1", 9)
    world.wait(1)

    assert "Empty" == world.shared().state


# Changes of leader.


def test_a_group_survives_a_change_of_leader():
    """Members, epochs and assignments are in the log, so they stay the same when the leader changes."""
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
    """
    After a change of leader, every member has a whole session, because its last heartbeats reached the earlier leader.
    """
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


CHANGES = {  # changes of a group with m1 and m2: who causes each change, and a function that makes it
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
    A large change fills several batches, so its leader may lose leadership when only the first of them are committed.
    The client that caused the change then repeats its request or stays silent.  In both cases, the heartbeats of the
    other members lead to an assignment in which every partition of a subscribed topic has a member.
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
    """A changed subscription increases the group epoch, and the next assignment follows the new subscription."""
    world = ShareWorld()
    world.joined("m1")
    world.wait(INTERVAL_MS)

    taken = world.beat("m1", 1, topics=("tides", "tides"))

    assert (2, {TIDES_ID: (0, 1)}) == (taken.epoch, taken.assignment)
    assert ("tides",) == world.member("m1").topics


def test_an_unsubscribed_topic_leaves_at_once():
    """
    A member that unsubscribes from a topic loses its partitions of this topic immediately, even if the next target
    assignment is computed only after the assignment interval.
    """
    world = ShareWorld()
    world.joined("m1", "flights", "tides")

    taken = world.beat("m1", 1, topics=("tides",))

    assert (1, {TIDES_ID: (0, 1)}) == (taken.epoch, taken.assignment)
    assert (2, 1) == (world.shared().epoch, world.shared().assignment_epoch)


def test_a_member_may_read_nothing():
    """A member may change its subscription to an empty one; its assignment is then empty."""
    world = ShareWorld()
    world.joined("m1")

    assert {} == world.beat("m1", 1, topics=()).assignment


def test_a_topic_may_be_created_later():
    """
    A member may subscribe to a topic that does not exist.  The first heartbeat after the topic's creation assigns its
    partitions.
    """
    world = ShareWorld()
    joined = world.joined("m1", "later")
    world.create_topic("later", 2)

    assert {} == joined.assignment
    assert {"m1": {"later": (0, 1)}} == world.rebalanced("m1")


def test_added_partitions_are_assigned():
    """Partitions that are added to a subscribed topic are assigned.  (KAFKA-20742: Kafka skipped them.)"""
    world = ShareWorld()
    world.joined("m1", "tides")
    world.partition_counts["tides"] = 3

    assert {"m1": {"tides": (0, 1, 2)}} == world.rebalanced("m1")


def test_a_deleted_topic_is_unassigned():
    """When a topic is deleted, the group forgets it, and its members get an assignment without it (KAFKA-20533)."""
    world = ShareWorld()
    world.joined("m1", "flights", "tides")

    world.delete_topic("tides")

    assert {"m1": {"flights": (0, 1, 2, 3)}} == world.rebalanced("m1")
    assert 2 == world.shared().epoch
    assert {FLIGHTS_ID} == world.groups.topic_ids()


def test_a_recreated_topic_is_another_topic():
    """
    If a subscribed topic is deleted and created again, the member gets partitions of the new topic, which has another
    id.
    """
    world = ShareWorld()
    world.joined("m1", "later", "tides")
    world.delete_topic("tides")
    world.create_topic("tides", 1)

    world.rebalanced("m1")
    taken = world.beat("m1", world.member("m1").epoch, topics=("tides",))

    assert [(0,)] == list(taken.assignment.values())
    assert TIDES_ID not in taken.assignment


def test_other_fields_change_no_epoch():
    """
    A member's new client host is recorded without a new group epoch, so nothing is assigned anew.  A heartbeat without
    a rack leaves the recorded rack unchanged.
    """
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
    """
    A full disk still serves heartbeats that append nothing.  If it refused all heartbeats, every session would end as
    soon as there is space again.
    """
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
    """
    A full disk refuses a heartbeat that would change an assignment, because the assignment must be logged before a
    member gets it.
    """
    world = ShareWorld()
    world.joined("m1")
    if change == "a member joined":
        world.joined("m2")
    else:
        world.partition_counts["flights"] = 5

    assert not world.groups.appends_nothing(world.heartbeating("m1", 1))
