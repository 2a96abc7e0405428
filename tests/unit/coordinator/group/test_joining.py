"""JoinGroup, as Kafka's clients meet it."""

import pytest

from tests.unit.coordinator.group.group_world import RANGE, World
from tidemill.model import errors

STICKY_TOO = (("sticky", b"s"), *RANGE)


def test_a_new_dynamic_member_is_told_its_id_and_asked_to_come_again():
    """
    A client that gives up between the two requests leaves no member behind (KIP-394).
    """
    world = World()

    first = world.join(must_know_member_id=True)
    second = world.join(must_know_member_id=True, member_id=first.member_id)
    world.wait(3_000)

    assert first.error_code == errors.MEMBER_ID_REQUIRED
    assert first.member_id == "app-00000000-0000-4000-8000-000000000001"
    assert world.answer(second).error_code == errors.NONE
    assert world.answer(second).member_id == first.member_id


def test_an_id_that_is_not_used_within_the_session_is_forgotten():
    """
    What was promised to a client that never came back holds nobody up.
    """
    world = World()
    promised = world.join(must_know_member_id=True)

    world.wait(10_000)
    late = world.join(must_know_member_id=True, member_id=promised.member_id)

    assert late.error_code == errors.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"group_id": ""}, errors.INVALID_GROUP_ID),
        ({"group_id": "g" * 40_000}, errors.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, errors.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, errors.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, errors.UNKNOWN_MEMBER_ID),
        ({"client_id": "c" * 40_000}, errors.INVALID_REQUEST),
    ],
)
def test_a_join_that_cannot_be_is_refused_and_leaves_nothing(fields, error_code):
    """
    Each refusal has Kafka's code; a group that nobody could join does not exist.
    """
    world = World()

    refused = world.join(**fields)

    assert refused.error_code == error_code
    assert world.log == []
    assert world.state() == "Dead"


def test_members_of_one_generation_share_a_protocol_and_a_leader():
    """
    All support the chosen protocol; only the leader sees the members' metadata.
    """
    world = World()
    first = world.join(protocols=STICKY_TOO)
    second = world.join(protocols=RANGE)

    world.wait(6_000)

    leader, follower = world.answer(first), world.answer(second)
    assert (leader.protocol_name, follower.protocol_name) == ("range", "range")
    assert leader.leader == follower.leader == leader.member_id
    assert [member.metadata for member in leader.members] == [RANGE[0][1], RANGE[0][1]]
    assert follower.members == ()


def test_the_protocol_with_most_votes_is_chosen_among_those_all_support():
    """
    Each member votes for the first in its list that everybody supports.
    """
    world = World()
    both = (("sticky", b"s"), ("range", b"r"), ("own", b"o"))
    range_first = (("range", b"r"), ("sticky", b"s"))
    joins = [world.join(protocols=protocols) for protocols in (both, range_first, range_first)]

    world.wait(9_000)

    assert world.answer(joins[0]).protocol_name == "range"


def test_a_member_that_shares_no_protocol_is_refused():
    """
    One group speaks one language, of one type.
    """
    world = World()
    world.stable()

    foreign = world.join(protocols=(("own", b""),))
    other_type = world.join(protocol_type="connect")

    assert foreign.error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert other_type.error_code == errors.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_nobody_else():
    """
    group.max.size; members that are in may come again.
    """
    world = World(size_max=2)
    first, second = world.stable(2)

    refused = world.join()
    again = world.join(member_id=second.member_id)

    assert refused.error_code == errors.GROUP_MAX_SIZE_REACHED
    assert again.generation == first.generation


def test_while_a_rebalance_is_prepared_the_last_to_come_find_a_full_group():
    """
    The bound counts those that have joined: a group over its bound sheds whoever is slow.
    """
    world = World(size_max=3)
    first, second, third = world.stable(3)
    world.settings = world.groups._settings = type(world.settings)(size_max=2)
    world.join(member_id=first.member_id)  # the leader: a rebalance begins

    world.join(member_id=second.member_id)
    refused = world.join(member_id=third.member_id)

    assert refused.error_code == errors.GROUP_MAX_SIZE_REACHED


def test_a_follower_that_joins_a_stable_group_again_unchanged_disturbs_nobody():
    """
    Its first answer was lost; the generation stands.
    """
    world = World()
    leader, follower = world.stable(2)

    again = world.join(member_id=follower.member_id)

    assert (again.generation, again.leader) == (leader.generation, leader.member_id)
    assert world.state() == "Stable"


def test_a_leader_that_joins_a_stable_group_again_begins_a_rebalance():
    """
    It has seen topics or partitions change and wants to assign again.
    """
    world = World()
    leader, follower = world.stable(2)

    parked = world.join(member_id=leader.member_id)
    told = world.heartbeat(follower)
    again = world.join(member_id=follower.member_id)

    assert told == errors.REBALANCE_IN_PROGRESS
    assert world.answer(parked).generation == leader.generation + 1
    assert again.leader == leader.member_id


def test_a_follower_with_new_metadata_begins_a_rebalance():
    """
    It subscribes to something else.
    """
    world = World()
    leader, follower = world.stable(2)

    world.join(member_id=follower.member_id, protocols=STICKY_TOO)

    assert world.state() == "PreparingRebalance"
    assert world.heartbeat(leader) == errors.REBALANCE_IN_PROGRESS


def test_a_join_while_the_leader_assigns_begins_again():
    """
    Who waits for its assignment is told to join again.
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


def test_an_unchanged_member_that_joins_while_the_leader_assigns_gets_its_answer_again():
    """
    The leader gets the members with it, for it has to assign.
    """
    world = World()
    first, second = world.join(), world.join()
    world.wait(9_000)
    leader, follower = world.answer(first), world.answer(second)

    leader_again = world.join(member_id=leader.member_id)
    follower_again = world.join(member_id=follower.member_id)

    assert leader_again == leader
    assert follower_again == follower


def test_of_two_joins_of_one_member_the_earlier_is_answered_at_once():
    """
    Every request gets an answer, also one whose connection is gone.
    """
    world = World()
    leader, _ = world.stable(2)
    parked = world.join(member_id=leader.member_id)

    world.join(member_id=leader.member_id)

    assert world.answer(parked).error_code == errors.REBALANCE_IN_PROGRESS


def test_a_restarted_consumer_waits_until_the_dead_one_is_given_up():
    """
    Without an instance id the coordinator cannot know that they are one.
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


def test_a_static_member_that_comes_back_gets_its_place_without_a_rebalance():
    """
    That is what an instance id is for; the new member id is logged.
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


def test_who_was_replaced_is_fenced():
    """
    Of two processes with one instance id the later one wins.
    """
    world = World()
    tower, desk = world.static("tower", "desk")
    world.join(instance_id="desk")

    code = world.heartbeat(desk, instance_id="desk")
    unaffected = world.heartbeat(tower, instance_id="tower")

    assert code == errors.FENCED_INSTANCE_ID
    assert unaffected == errors.NONE


def test_a_returning_static_leader_need_not_assign():
    """
    It gets the members to watch, and is told to skip the assignment (KIP-814).
    """
    world = World()
    tower, desk = world.static("tower", "desk")

    back = world.join(instance_id="tower")

    assert (back.leader, back.skip_assignment) == (back.member_id, True)
    assert [member.instance_id for member in back.members] == ["desk", "tower"]
    assert tower.leader == desk.leader != back.leader


def test_a_returning_static_leader_of_an_old_version_believes_it_is_a_follower():
    """
    Before v9 it cannot be told to skip; the old leader's id keeps it from assigning.
    """
    world = World()
    tower, _ = world.static("tower", "desk")

    back = world.join(instance_id="tower", can_skip_assignment=False)

    assert (back.leader, back.skip_assignment, back.members) == (tower.member_id, False, ())


def test_a_static_member_that_changes_the_protocol_begins_a_rebalance():
    """
    Keeping its place would keep a protocol that no vote would choose now.
    """
    world = World()
    protocols = (("range", b"r"), ("sticky", b"s"))
    parked = world.join(instance_id="desk", protocols=protocols)
    world.wait(3_000)
    world.assigned([world.answer(parked)])

    again = world.join(instance_id="desk", protocols=(("sticky", b"s"), ("range", b"r")))

    assert (again.generation, again.protocol_name) == (2, "sticky")


def test_a_static_member_that_comes_back_while_others_join_takes_the_parked_join_over():
    """
    The old process is fenced, the new one waits in its place.
    """
    world = World()
    parked = world.join(instance_id="desk")

    back = world.join(instance_id="desk")
    world.wait(6_000)

    assert world.answer(parked).error_code == errors.FENCED_INSTANCE_ID
    assert world.answer(back).generation == 1


def test_a_static_member_that_comes_back_while_the_leader_assigns_begins_again():
    """
    The leader may be assigning to the old member id already.
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
    """
    It has its place; only its parked request changes.
    """
    world = World(size_max=2)
    leader, follower = world.stable(2)
    world.join(member_id=leader.member_id, protocols=STICKY_TOO)
    world.join(must_know_member_id=True)  # An id given out keeps the rebalance from ending.
    world.join(member_id=follower.member_id)

    again = world.join(member_id=leader.member_id, protocols=STICKY_TOO)

    assert world.answer(again) is None


def test_a_static_member_that_comes_back_before_it_has_synced_is_not_missed():
    """
    Its old id was the last whose SyncGroup was awaited.  Found by the random lives of groups.
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


def test_a_static_member_that_comes_back_during_its_first_join_waits_longer_than_a_session():
    """
    It cannot send heartbeats while its JoinGroup is parked, whichever of the two it is.
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
