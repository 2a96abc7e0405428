"""Share groups in the group coordinator: how they are described, listed and deleted, and how shares are opened."""

import pytest

from tests.unit.coordinator.group.group_world import BEGIN_MS, FLIGHTS_ID, RANGE, TIDES_ID
from tests.unit.coordinator.share_group.share_world import LATER_ID, ShareWorld
from tidemill.coordinator.group.requests import DeleteOffsets, DescribeGroups, FetchOffsets, TopicPartitionId
from tidemill.coordinator.group.responses import OffsetsFetched
from tidemill.coordinator.share_group.log_records import Kind
from tidemill.coordinator.share_group.requests import ShareOpen, SharesClosed
from tidemill.coordinator.share_group.responses import DescribedShareGroup, DescribedShareMember, DescribedTopic
from tidemill.model import errors
from tidemill.model.offset_reset import EARLIEST, LATEST, OffsetReset, ResetRule
from tidemill.model.share_group_config import ShareGroupConfig

BY_DURATION = OffsetReset(ResetRule.BY_DURATION, 60_000)


# ShareGroupDescribe, DescribeGroups and ListGroups.


def test_a_group_is_described():
    """ShareGroupDescribe shows the group's epochs, and each member with its subscription and assignment."""
    world = ShareWorld()
    world.joined("m1", "tides", "none", rack="r1")
    world.joined("m2")

    described = world.shared()

    assert (
        DescribedShareGroup(
            group_id="g",
            state="Stable",
            epoch=2,
            assignment_epoch=1,
            assignor="simple",
            members=(
                DescribedShareMember(
                    member_id="m1",
                    rack="r1",
                    epoch=1,
                    client_id="app",
                    client_host="/127.0.0.1",
                    topics=("none", "tides"),
                    assignment=(DescribedTopic(TIDES_ID, "tides", (0, 1)),),
                ),
                DescribedShareMember(
                    member_id="m2",
                    rack=None,
                    epoch=1,
                    client_id="app",
                    client_host="/127.0.0.1",
                    topics=("flights",),
                    assignment=(),
                ),
            ),
        )
        == described
    )


def test_a_deleted_topic_is_not_described():
    """
    The description of a member leaves out a deleted topic, although the member's assignment contains it until the next
    heartbeat.
    """
    world = ShareWorld()
    world.joined("m1", "tides")
    world.delete_topic("tides")

    assert () == world.member("m1").assignment


def test_an_unknown_group_is_dead():
    """
    An unknown share group is described as Dead, with the same error code as in Kafka and a message that tools print.
    """
    described = ShareWorld().shared()

    assert ("Dead", errors.GROUP_ID_NOT_FOUND) == (described.state, described.error_code)
    assert "Group g not found." == described.error_message


def test_describe_groups_does_not_describe_share_groups():
    """DescribeGroups, which is for classic groups, does not find a share group, and its message says why."""
    world = ShareWorld()
    world.joined("m1")

    described = world.describe()

    assert ("Dead", errors.GROUP_ID_NOT_FOUND) == (described.state, described.error_code)
    assert "Group g is not a classic group." == described.error_message
    unknown = world.ask(DescribeGroups(waiter=world.waiter(), group_ids=("h",))).groups[0]
    assert "Group h not found." == unknown.error_message


SHARE_ROWS = [("empty", "share", "Empty", "Share"), ("g", "share", "Stable", "Share")]
CLASSIC_ROW = ("simple", "", "Empty", "Classic")


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ({}, [CLASSIC_ROW, *SHARE_ROWS]),
        ({"types": ("SHARE",)}, SHARE_ROWS),
        ({"types": ("classic",)}, [CLASSIC_ROW]),
        ({"types": ("classic", "share")}, [CLASSIC_ROW, *SHARE_ROWS]),
        ({"types": ("consumer",)}, []),
        ({"states": ("stable",)}, SHARE_ROWS[1:]),
        ({"states": ("Empty",), "types": ("share",)}, SHARE_ROWS[:1]),
    ],
)
def test_share_groups_are_listed(filters, rows):
    """ListGroups lists groups of all types, and its filters by type and state ignore case."""
    world = ShareWorld()
    world.commit("simple")
    world.joined("m1", group_id="empty")
    world.beat("m1", -1, group_id="empty")
    world.joined("m1")

    assert rows == world.listed(**filters)


def test_share_groups_are_counted():
    """The metrics count groups and members of every type."""
    world = ShareWorld()
    world.commit("simple")
    world.joined("m1")
    world.joined("m2")

    assert (2, 2) == world.groups.counts()


# Requests of the classic protocol to a share group.


def test_a_classic_member_cannot_join_a_share_group():
    """
    JoinGroup for a share group is refused with INCONSISTENT_GROUP_PROTOCOL (23), as in Kafka, and the group is
    unchanged.
    """
    world = ShareWorld()
    world.joined("m1")

    codes = [world.join(protocols=RANGE, member_id=member_id).error_code for member_id in ("", "m1")]

    assert [errors.INCONSISTENT_GROUP_PROTOCOL] * 2 == codes
    assert [("g", "share", "Stable", "Share")] == world.listed()


def test_a_share_group_has_no_committed_offsets():
    """
    OffsetCommit and OffsetDelete for a share group are refused with GROUP_ID_NOT_FOUND (69), as in Kafka, even in
    versions of OffsetCommit that otherwise never return this code.
    """
    world = ShareWorld()
    world.joined("m1")
    partition = TopicPartitionId(topic="flights", topic_id=FLIGHTS_ID, partition=0)
    delete = DeleteOffsets(waiter=world.waiter(), group_id="g", partitions=(partition,))

    commits = [world.commit(knows_group_id_not_found=knows, generation=1) for knows in (False, True)]
    commits.append(world.commit())

    assert [errors.GROUP_ID_NOT_FOUND] * 3 == commits
    assert errors.GROUP_ID_NOT_FOUND == world.ask(delete).error_code
    assert [("g", "share", "Stable", "Share")] == world.listed()


@pytest.mark.parametrize("partitions", [None, (TopicPartitionId(topic="flights", topic_id=FLIGHTS_ID, partition=0),)])
def test_offsets_cannot_be_fetched_from_a_share_group(partitions):
    """
    OffsetFetch for a share group is refused.  Without the error, a consumer that uses the group id by mistake would
    begin at the start of every partition.
    """
    world = ShareWorld()
    world.joined("m1")

    fetched = world.ask(FetchOffsets(waiter=world.waiter(), group_id="g", partitions=partitions))

    assert OffsetsFetched(error_code=errors.GROUP_ID_NOT_FOUND) == fetched


# DeleteGroups.


def test_a_group_with_members_is_not_deleted():
    """DeleteGroups refuses a share group that has members with NON_EMPTY_GROUP (68), like a group of any other type."""
    world = ShareWorld()
    world.joined("m1")

    assert (errors.NON_EMPTY_GROUP, errors.GROUP_ID_NOT_FOUND) == world.delete("g", "h")


def test_an_empty_group_is_deleted():
    """
    An empty share group is deleted immediately, and is still deleted after a restart.  Its id is free for a group of
    any type.
    """
    world = ShareWorld()
    world.joined("m1")
    world.beat("m1", -1)

    code = world.delete("g")
    world.restart()

    assert (errors.NONE,) == code
    assert [] == world.listed()
    assert errors.GROUP_ID_NOT_FOUND == world.shared().error_code
    assert errors.NONE == world.commit()


def test_the_shares_of_a_deleted_group_are_closed():
    """
    The coordinator lists the shares of a deleted group as shares to close, even after a restart, until the host reports
    that all leaders of the partitions have removed them.
    """
    world = ShareWorld()
    world.joined("m1", "flights", "tides")
    world.beat("m1", -1)
    world.delete("g")
    world.restart()

    told = world.close_shares()

    assert {("g", FLIGHTS_ID), ("g", TIDES_ID)} == set(told)
    assert [] == world.close_shares()
    assert set() == world.groups.topic_ids()


def test_a_recreated_group_has_a_greater_incarnation():
    """
    A group that is deleted and created again gets a greater incarnation for the same topic.  A leader that missed the
    deletion replaces its old share when it learns of the new incarnation, and a late deletion of the old share does not
    remove the new one.
    """
    world = ShareWorld()
    world.joined("m1")
    before = world.open("flights")
    world.beat("m1", -1)
    world.delete("g")
    world.joined("m1")

    after = world.open("flights")
    closed = world.close_shares()

    assert after.incarnation > before.incarnation
    assert [("g", FLIGHTS_ID)] == closed
    assert after == world.open("flights")


def test_only_the_newest_deletion_is_closed():
    """
    If a group was deleted twice, a late report that the shares of the first deletion are closed does not end the second
    deletion.
    """
    world = ShareWorld()
    for _ in range(2):
        world.joined("m1")
        world.beat("m1", -1)
        world.delete("g")
    (share,) = world.groups.shares_to_close()

    world.ask(SharesClosed(group_id="g", topic_id=FLIGHTS_ID, incarnation=share.incarnation - 1))
    still = list(world.groups.shares_to_close())
    world.ask(SharesClosed(group_id="g", topic_id=FLIGHTS_ID, incarnation=share.incarnation))

    assert [share] == still
    assert [] == list(world.groups.shares_to_close())


def test_each_deletion_is_closed():
    """
    A group that is deleted, created again with another topic, and deleted again has shares of both topics to close.
    """
    world = ShareWorld()
    for topic in ("flights", "tides"):
        world.joined("m1", topic)
        world.beat("m1", -1)
        world.delete("g")

    assert {("g", FLIGHTS_ID), ("g", TIDES_ID)} == set(world.close_shares())


def test_a_deletion_marks_the_shares_before_the_group_ends():
    """
    A deletion logs the shares to close before it logs the end of the group.  If only the end of the group were
    committed, a new group with the same id would continue the deleted shares.
    """
    world = ShareWorld()
    world.joined("m1")
    incarnation = world.open("flights").incarnation
    world.beat("m1", -1)
    length = len(world.log)
    world.delete("g")
    whole = world.log

    for end in range(length, len(whole)):
        world.log = whole[:end]
        world.restart()
        world.delete("g")
        world.joined("m1")
        assert world.open("flights").incarnation > incarnation


def test_a_deleted_topic_needs_no_closing():
    """
    If a topic is deleted, a deleted group has no shares of it to close, because they are gone with the topic's
    partitions.
    """
    world = ShareWorld()
    world.joined("m1")
    world.beat("m1", -1)
    world.delete("g")

    world.delete_topic("flights")

    assert [] == world.close_shares()
    assert set() == world.groups.topic_ids()


# ShareOpen.


def test_an_incarnation_begins_when_the_group_first_reads_the_topic():
    """
    The incarnation of a topic is the append time at which the group first uses it, or the last incarnation plus one if
    that is greater.  It does not change when partitions are added, members join, or the leader changes.
    """
    world = ShareWorld()
    world.joined("m1", "tides")
    world.wait(1_000)
    world.joined("m2", "flights")
    opened = [world.open(topic) for topic in ("tides", "flights")]

    world.partition_counts["tides"] = 5
    world.rebalanced("m1", "m2")
    world.restart()

    assert [BEGIN_MS, BEGIN_MS + 1_000] == [it.incarnation for it in opened]
    assert opened == [world.open(topic) for topic in ("tides", "flights")]


def test_incarnations_never_repeat():
    """
    Incarnations of a topic increase even if the append time stands still, for example after the wall clock was set
    back.
    """
    world = ShareWorld()
    seen = []
    for _ in range(5):
        world.joined("m1")
        seen.append(world.open("flights").incarnation)
        world.beat("m1", -1)
        world.delete("g")
        world.restart()

    assert sorted(set(seen)) == seen


@pytest.mark.parametrize("reset", [EARLIEST, LATEST, BY_DURATION], ids=lambda it: it.rule)
def test_a_share_begins_where_the_configuration_says(reset):
    """A new share begins where `share.auto.offset.reset` says at the moment when the share is opened."""
    world = ShareWorld()
    world.joined("m1")
    world.share_config = ShareGroupConfig(offset_reset=reset)

    assert reset == world.open("flights", 3).start


def test_added_partitions_are_read_from_their_start():
    """
    A partition that is added to a topic is read from its start even with `latest`, because records that were produced
    before its first fetch would otherwise be skipped (KAFKA-20742).
    """
    world = ShareWorld()
    world.joined("m1", "tides")
    before = world.open("tides", 2).start
    world.partition_counts["tides"] = 3
    world.rebalanced("m1")
    world.restart()

    starts = [world.open("tides", partition).start for partition in range(4)]

    assert EARLIEST == before
    assert [LATEST, LATEST, EARLIEST, EARLIEST] == starts


def test_a_late_session_does_not_create_a_group():
    """No share of a deleted group can be opened: a consumer that fetches late must not bring the group back."""
    world = ShareWorld()

    assert errors.GROUP_ID_NOT_FOUND == world.open("flights").error_code
    assert [] == world.log


def test_a_consumer_over_http_creates_its_group():
    """A consumer over HTTP sends no heartbeats, so opening its first share creates the group, without members."""
    world = ShareWorld()

    opened = world.open("flights", may_create=True)

    assert (errors.NONE, BEGIN_MS, LATEST) == (opened.error_code, opened.incarnation, opened.start)
    assert [("g", "share", "Empty", "Share")] == world.listed()
    assert opened == world.open("flights")


def test_an_opened_topic_is_still_assigned():
    """
    A consumer over HTTP may open a share of a new topic before the members' next heartbeat.  The group then already
    knows the topic, but must still assign it to the members that subscribe to it.
    """
    world = ShareWorld()
    world.joined("m1", "later")
    world.create_topic("later", 2)

    world.open("later", may_create=True)

    assert {"m1": {"later": (0, 1)}} == world.rebalanced("m1")


def test_a_known_share_is_opened_while_the_disk_is_full():
    """
    While the disk is full, a share can be opened if the group already uses the topic, because this appends no record.
    For a new topic or group, a record would be logged, so the request is refused.
    """
    world = ShareWorld()
    world.joined("m1")

    served = [
        world.groups.appends_nothing(
            ShareOpen(waiter=world.waiter(), group_id=group_id, topic_id=topic_id, partition=0, may_create=True)
        )
        for group_id, topic_id in (("g", FLIGHTS_ID), ("g", TIDES_ID), ("h", FLIGHTS_ID))
    ]

    assert [True, False, False] == served


def test_an_unknown_topic_cannot_be_opened():
    """
    A share of a topic that is missing from the coordinator's image cannot be opened.  The image may be older than that
    of the partition's leader, so the leader asks again.
    """
    world = ShareWorld()
    world.joined("m1")

    opened = world.open("none")

    assert LATER_ID not in world.groups.topic_ids()
    assert errors.UNKNOWN_TOPIC_ID == opened.error_code


@pytest.mark.parametrize("group_id", ["", "g" * 32_768])
def test_a_group_needs_a_legal_id(group_id):
    """No share can be opened for an empty group id, or for one that is too long for a log record."""
    opened = ShareWorld().open("flights", group_id=group_id, may_create=True)

    assert errors.INVALID_GROUP_ID == opened.error_code


def test_a_classic_group_opens_no_share():
    """Opening a share for a classic group is refused; over HTTP, this is answered as a conflict."""
    world = ShareWorld()
    world.commit()

    assert errors.GROUP_ID_NOT_FOUND == world.open("flights", may_create=True).error_code


# Deleted topics and snapshots.


def test_a_deleted_topic_costs_only_the_groups_that_read_it():
    """
    The host tells the coordinator of every deleted topic.  If no share group uses the topic, the coordinator appends
    nothing.
    """
    world = ShareWorld()
    world.joined("m1")
    length = len(world.log)

    world.delete_topic("tides")

    assert [] == world.kinds_since(length)


def test_a_topic_that_is_not_assigned_needs_no_new_epoch():
    """If a deleted topic is assigned to no member, the group forgets it without a new group epoch."""
    world = ShareWorld()
    world.joined("m1")
    world.open("tides", may_create=True)
    world.rebalanced("m1")
    length = len(world.log)

    world.delete_topic("tides")

    assert [Kind.TOPICS] == world.kinds_since(length)


def snapshotted(world, records_max, between=lambda step: None):
    """
    Append a snapshot of the coordinator to the log, and call `between` after each chunk.  Return the snapshot's first
    offset.
    """
    first_offset = len(world.log)
    chunks = world.groups.snapshot_chunks(records_max=records_max)
    for step, chunk in enumerate(chunks):
        for record in chunk:
            world.log.append(record)
            world.groups.replay(*record)
        between(step)
    record = chunks.end_record(first_offset, world.now_ms)
    world.log.append(record)
    world.groups.replay(*record)
    return first_offset


def busy_world():
    """
    Return a world that has two groups with members, an empty group, a deleted group whose shares are not closed, and a
    group with committed offsets.
    """
    world = ShareWorld()
    world.commit("simple")
    for group_id in ("a", "b", "empty", "deleted"):
        for member_id in ("m1", "m2", "m3"):
            world.joined(member_id, "flights", "tides", group_id=group_id)
    for group_id in ("a", "b"):
        world.rebalanced("m1", "m2", "m3", group_id=group_id)
    for group_id in ("empty", "deleted"):
        for member_id in ("m1", "m2", "m3"):
            world.beat(member_id, -1, group_id=group_id)
    world.delete("deleted")
    return world


def test_a_snapshot_contains_the_share_groups():
    """
    A log that starts at a snapshot restores the members, epochs, assignments, topics and deletions of share groups.
    """
    world = busy_world()

    first_offset = snapshotted(world, records_max=4)
    whole = world.replayed()
    del world.log[:first_offset]

    assert world.replayed()._state == whole._state
    assert {"deleted", "a"} <= whole._state.share.topics.keys()


def test_changes_between_chunks_of_a_snapshot_are_not_lost():
    """
    If members join and leave, and groups are deleted and created, while a snapshot is written, a log that starts at the
    snapshot still restores the same state as the whole log.
    """
    world = busy_world()

    def change(step):
        world.joined(f"n{step}", "flights", group_id="a")
        if step % 2:
            world.beat(f"n{step}", -1, group_id="a")
        if step == 3:
            for member_id in ("m1", "m2", "m3"):
                world.beat(member_id, -1, group_id="b")
            world.delete("b", "empty")
        if step == 5:
            world.joined("m2", "tides", group_id="b")
            world.close_shares()
        world.wait(300)

    first_offset = snapshotted(world, 2, change)
    whole = world.replayed()
    del world.log[:first_offset]

    assert world.replayed()._state == whole._state


def test_replies_about_share_groups_are_never_parked():
    """
    Every request of a share member is answered at once, so no parked request is left to answer when leadership is lost.
    """
    world = ShareWorld()
    world.joined("m1")

    assert () == world.groups.drain(errors.NOT_COORDINATOR)
