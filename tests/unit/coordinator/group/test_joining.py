"""JoinGroup, as Kafka's clients use it."""

import pytest

from tests.unit.coordinator.group.group_world import RANGE, World
from tidemill.model import errors

STICKY_TOO = (("sticky", b"s"), *RANGE)


def test_a_new_dynamic_member_gets_an_id_and_joins_with_it():
    """
    The first JoinGroup of a new dynamic member only assigns an id, with which the client sends a second one.  If the
    client gives up in between, it leaves no member behind (KIP-394).
    """
    world = World()

    first = world.join(must_know_member_id=True)
    second = world.join(must_know_member_id=True, member_id=first.member_id)
    world.wait(3_000)

    assert first.error_code == errors.MEMBER_ID_REQUIRED
    assert first.member_id == "app-00000000-0000-4000-8000-000000000001"
    assert world.answer(second).error_code == errors.NONE
    assert world.answer(second).member_id == first.member_id


def test_an_unused_member_id_expires_with_its_session():
    """A member id that its client never uses to join expires with its session, and does not delay a rebalance."""
    world = World()
    expected = world.join(must_know_member_id=True)

    world.wait(10_000)
    late = world.join(must_know_member_id=True, member_id=expected.member_id)

    assert late.error_code == errors.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"group_id": ""}, errors.INVALID_GROUP_ID),
        ({"group_id": "g" * 40_000}, errors.INVALID_GROUP_ID),
        ({"group_id": "__redrive.orders"}, errors.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, errors.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, errors.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, errors.UNKNOWN_MEMBER_ID),
        ({"client_id": "c" * 40_000}, errors.INVALID_REQUEST),
    ],
)
def test_an_invalid_join_is_refused_and_creates_no_group(fields, error_code):
    """Each kind of refusal has Kafka's error code."""
    world = World()

    refused = world.join(**fields)

    assert refused.error_code == error_code
    assert world.log == []
    assert world.state() == "Dead"


def test_members_of_one_generation_share_a_protocol_and_a_leader():
    """All members support the selected protocol, and only the leader receives the metadata of the members."""
    world = World()
    first = world.join(protocols=STICKY_TOO)
    second = world.join(protocols=RANGE)

    world.wait(6_000)

    leader, follower = world.answer(first), world.answer(second)
    assert (leader.protocol_name, follower.protocol_name) == ("range", "range")
    assert leader.leader == follower.leader == leader.member_id
    assert [member.metadata for member in leader.members] == [RANGE[0][1], RANGE[0][1]]
    assert follower.members == ()


def test_the_commonly_supported_protocol_with_most_votes_is_selected():
    """Each member votes for the first protocol in its own list that all members support."""
    world = World()
    both = (("sticky", b"s"), ("range", b"r"), ("own", b"o"))
    range_first = (("range", b"r"), ("sticky", b"s"))
    joins = [world.join(protocols=protocols) for protocols in (both, range_first, range_first)]

    world.wait(9_000)

    assert world.answer(joins[0]).protocol_name == "range"


def test_a_member_without_a_common_protocol_is_refused():
    """A member is refused if it has another protocol type than the group, or no protocol that all members support."""
    world = World()
    world.stable()

    foreign = world.join(protocols=(("own", b""),))
    other_type = world.join(protocol_type="connect")

    assert foreign.error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert other_type.error_code == errors.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_refuses_new_members():
    """group.max.size applies to new members; existing ones may join again."""
    world = World(size_max=2)
    first, second = world.stable(2)

    refused = world.join()
    again = world.join(member_id=second.member_id)

    assert refused.error_code == errors.GROUP_MAX_SIZE_REACHED
    assert again.generation == first.generation


def test_the_last_members_to_join_a_full_group_are_refused():
    """During a rebalance, only members that have joined count towards the limit, so a group above its limit loses the
    slowest ones.
    """
    world = World(size_max=3)
    first, second, third = world.stable(3)
    world.settings = world.groups._settings = type(world.settings)(size_max=2)
    world.join(member_id=first.member_id)  # `first` is the leader, so this starts a rebalance

    world.join(member_id=second.member_id)
    refused = world.join(member_id=third.member_id)

    assert refused.error_code == errors.GROUP_MAX_SIZE_REACHED


def test_an_unchanged_follower_that_joins_again_causes_no_rebalance():
    """
    If a follower joins again without changes, the generation continues: the response to its first join may have been
    lost.
    """
    world = World()
    leader, follower = world.stable(2)

    again = world.join(member_id=follower.member_id)

    assert (again.generation, again.leader) == (leader.generation, leader.member_id)
    assert world.state() == "Stable"


def test_a_leader_that_joins_again_starts_a_rebalance():
    """
    If the leader joins again, a rebalance starts, because the topics or partitions may have changed and the leader then
    assigns them anew.
    """
    world = World()
    leader, follower = world.stable(2)

    parked = world.join(member_id=leader.member_id)
    code = world.heartbeat(follower)
    again = world.join(member_id=follower.member_id)

    assert code == errors.REBALANCE_IN_PROGRESS
    assert world.answer(parked).generation == leader.generation + 1
    assert again.leader == leader.member_id


def test_a_follower_with_new_metadata_starts_a_rebalance():
    """
    A follower that joins again with new metadata starts a rebalance, because the metadata may contain a new
    subscription.
    """
    world = World()
    leader, follower = world.stable(2)

    world.join(member_id=follower.member_id, protocols=STICKY_TOO)

    assert world.state() == "PreparingRebalance"
    assert world.heartbeat(leader) == errors.REBALANCE_IN_PROGRESS


def test_a_new_member_while_the_leader_assigns_starts_a_rebalance():
    """
    If a new member joins while the leader computes the assignment, members that wait for the assignment are told to
    join again.
    """
    world = World()
    first, second = world.join(), world.join()
    world.wait(9_000)
    follower = world.answer(second)
    waits = world.sync(follower)

    world.join()

    assert world.answer(waits).error_code == errors.REBALANCE_IN_PROGRESS
    assert world.answer(first).generation == 1
    assert world.state() == "PreparingRebalance"


def test_a_repeated_join_while_the_leader_assigns_gets_the_same_response():
    """
    A JoinGroup that is repeated while the leader computes the assignment gets the same response as the first one.  Only
    the response to the leader has the members, because the leader makes the assignment.
    """
    world = World()
    first, second = world.join(), world.join()
    world.wait(9_000)
    leader, follower = world.answer(first), world.answer(second)

    leader_again = world.join(member_id=leader.member_id)
    follower_again = world.join(member_id=follower.member_id)

    assert leader_again == leader
    assert follower_again == follower


def test_a_second_join_of_a_member_answers_the_first():
    """
    If a member joins again while its first JoinGroup is parked, the first one is answered, too: every request gets a
    response, even if its connection has been closed.
    """
    world = World()
    leader, _ = world.stable(2)
    parked = world.join(member_id=leader.member_id)

    world.join(member_id=leader.member_id)

    assert world.answer(parked).error_code == errors.REBALANCE_IN_PROGRESS


def test_a_restarted_dynamic_member_waits_for_the_old_session_to_end():
    """
    A restarted dynamic member waits until its old session ends, because the coordinator cannot know, without an
    instance id, that both members are the same consumer.
    """
    world = World()
    (dead,) = world.stable()

    restarted = world.join()
    world.wait(9_999)
    before = world.answer(restarted)
    world.wait(1)

    assert before is None
    assert world.answer(restarted).leader == world.answer(restarted).member_id != dead.member_id


# Static members (KIP-345).


def test_a_returning_static_member_keeps_its_assignment_without_a_rebalance():
    """
    A static member that joins again with its instance id keeps its assignment, and no rebalance starts.  It gets a new
    member id, which is logged.
    """
    world = World()
    _, desk = world.static("tower", "desk")
    records_before = len(world.log)

    back = world.join(instance_id="desk")

    assert back.error_code == errors.NONE
    assert back.member_id != desk.member_id
    assert back.generation == desk.generation
    assert world.state() == "Stable"
    assert len(world.log) == records_before + 1
    assert world.sync(back).assignment == b"\x01"


def test_a_replaced_static_member_is_fenced():
    """
    If two processes join with the same instance id, the later one takes the place of the earlier one, which is fenced.
    """
    world = World()
    tower, desk = world.static("tower", "desk")
    world.join(instance_id="desk")

    code = world.heartbeat(desk, instance_id="desk")
    unaffected = world.heartbeat(tower, instance_id="tower")

    assert code == errors.FENCED_INSTANCE_ID
    assert unaffected == errors.NONE


def test_a_returning_static_leader_skips_the_assignment():
    """
    The leader gets the list of members, so that it can monitor them, and is told to skip the assignment (KIP-814).
    """
    world = World()
    tower, desk = world.static("tower", "desk")

    back = world.join(instance_id="tower")

    assert (back.leader, back.skip_assignment) == (back.member_id, True)
    assert [member.instance_id for member in back.members] == ["desk", "tower"]
    assert tower.leader == desk.leader != back.leader


def test_a_returning_static_leader_before_v9_gets_the_old_leader_id():
    """
    Before v9, the response cannot tell the leader to skip the assignment.  If it names the old member id as leader, the
    client acts as a follower.
    """
    world = World()
    tower, _ = world.static("tower", "desk")

    back = world.join(instance_id="tower", can_skip_assignment=False)

    assert (back.leader, back.skip_assignment, back.members) == (tower.member_id, False, ())


def test_a_returning_static_member_that_changes_the_protocol_starts_a_rebalance():
    """If a returning static member changes the protocol that the group would select, a rebalance starts."""
    world = World()
    protocols = (("range", b"r"), ("sticky", b"s"))
    parked = world.join(instance_id="desk", protocols=protocols)
    world.wait(3_000)
    world.assigned([world.answer(parked)])

    again = world.join(instance_id="desk", protocols=(("sticky", b"s"), ("range", b"r")))

    assert (again.generation, again.protocol_name) == (2, "sticky")


def test_a_static_member_that_returns_while_others_join_replaces_the_parked_join():
    """
    If a static member returns while its earlier JoinGroup is parked, the earlier process is fenced, and the new
    JoinGroup is parked in place of the old one.
    """
    world = World()
    parked = world.join(instance_id="desk")

    back = world.join(instance_id="desk")
    world.wait(6_000)

    assert world.answer(parked).error_code == errors.FENCED_INSTANCE_ID
    assert world.answer(back).generation == 1


def test_a_static_member_that_returns_while_the_leader_assigns_starts_a_rebalance():
    """
    If a static member returns while the leader computes the assignment, a rebalance starts, because the assignment may
    contain the old member id.
    """
    world = World()
    first, second = world.join(instance_id="tower"), world.join(instance_id="desk")
    world.wait(9_000)
    waits = world.sync(world.answer(second), instance_id="desk")

    world.join(instance_id="desk")

    assert world.answer(waits).error_code == errors.FENCED_INSTANCE_ID
    assert world.state() == "PreparingRebalance"
    assert world.answer(first).error_code == errors.NONE


def test_a_member_that_has_joined_a_full_group_may_join_again():
    """The member has already been counted, so only its parked request is replaced."""
    world = World(size_max=2)
    leader, follower = world.stable(2)
    world.join(member_id=leader.member_id, protocols=STICKY_TOO)
    world.join(must_know_member_id=True)  # The unused id keeps the rebalance from completing.
    world.join(member_id=follower.member_id)

    again = world.join(member_id=leader.member_id, protocols=STICKY_TOO)

    assert world.answer(again) is None


def test_a_static_member_that_returns_before_its_sync_keeps_the_group_stable():
    """
    If a static member joins again when only its own SyncGroup is outstanding, the group stays stable, although the
    SyncGroup of the old member id will never arrive.  (A random test found this case.)
    """
    world = World()
    joins = [world.join(instance_id=name) for name in ("tower", "desk")]
    world.wait(6_000)
    tower, desk = (world.answer(join) for join in joins)
    assert tower.leader == tower.member_id
    world.sync(tower, assignments=((tower.member_id, b"1"), (desk.member_id, b"2")))
    assert world.state() == "Stable"

    back = world.join(instance_id="desk")
    generation = back.generation
    for _ in range(20):
        world.wait(5_000)
        world.heartbeat(tower)
        world.heartbeat(back)

    assert (generation, "Stable", b"2") == (tower.generation, world.state(), world.sync(back).assignment)


def test_a_static_member_that_returns_during_its_first_join_does_not_expire():
    """
    A static member that joins again while its first JoinGroup is parked does not expire, because neither process can
    send heartbeats while its request is parked.
    """
    world = World()
    (desk,) = world.static("desk")
    world.join(instance_id="tower")
    parked = world.join(instance_id="tower")
    for _ in range(5):
        world.wait(9_000)
        world.heartbeat(desk, instance_id="desk")

    world.join(member_id=desk.member_id, instance_id="desk")

    assert (world.answer(parked).error_code, world.answer(parked).generation) == (errors.NONE, 2)
