"""How a rebalance proceeds over time."""

from tests.unit.coordinator.group.group_world import World
from tidemill.model import errors


def test_the_first_rebalance_is_delayed():
    """The delay of group.initial.rebalance.delay.ms begins at the first join."""
    world = World()
    parked = world.join()

    world.wait(2_999)
    before = world.answer(parked)
    world.wait(1)

    assert before is None
    assert world.answer(parked).generation == 1


def test_each_new_member_extends_the_initial_delay():
    """Each new member extends the initial delay, but never beyond the longest rebalance timeout."""
    world = World()
    first = world.join(rebalance_timeout_ms=7_000)

    world.wait(2_000)
    world.join(rebalance_timeout_ms=7_000)
    world.wait(3_000)
    world.join(rebalance_timeout_ms=7_000)
    world.wait(1_999)
    before = world.answer(first)
    world.wait(1)

    assert before is None
    assert len(world.answer(first).members) == 3


def test_an_unused_member_id_does_not_shorten_the_initial_delay():
    """
    If the session of an unused member id expires during the initial delay, the delay continues, so that all members
    that are still joining get into one generation.
    """
    world = World()
    first = world.join()
    world.join(must_know_member_id=True, session_timeout_ms=7_000)
    for _ in range(3):
        world.wait(2_000)
        world.join()

    world.wait(1_500)
    before = world.answer(first)
    world.wait(6_000)

    assert before is None
    assert len(world.answer(first).members) == 4


def test_without_an_initial_delay_the_first_member_is_answered_at_once():
    """
    With group.initial.rebalance.delay.ms=0, which tests of applications often use, the first member is answered
    immediately.
    """
    world = World(initial_rebalance_delay_ms=0)

    parked = world.join()
    world.wait(0)

    assert world.answer(parked).generation == 1


def test_a_later_rebalance_completes_when_all_members_have_joined():
    """
    A later rebalance completes as soon as all members have joined, without a delay, because no further members are
    expected.
    """
    world = World()
    (old,) = world.stable()

    newcomer = world.join()
    again = world.join(member_id=old.member_id)

    assert again.generation == world.answer(newcomer).generation == 2
    assert again.leader == old.member_id


def test_a_dynamic_member_that_does_not_join_again_is_removed():
    """The member is removed after the longest rebalance timeout, even if it still sends heartbeats."""
    world = World()
    slow, quick = world.stable(2, rebalance_timeout_ms=20_000, session_timeout_ms=30_000)
    newcomer = world.join(rebalance_timeout_ms=20_000)
    parked = world.join(member_id=quick.member_id, rebalance_timeout_ms=20_000)

    world.wait(19_999)
    before = world.answer(parked)
    world.wait(1)

    assert before is None
    assert [member.member_id for member in world.answer(parked).members] == [
        quick.member_id,
        world.answer(newcomer).member_id,
    ]
    assert world.heartbeat(slow) == errors.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_join_again_stays_until_its_session_ends():
    """
    A static member that does not join again stays in the group until its session ends, because it may be restarting.
    In the meantime, another member leads.
    """
    world = World()
    tower, desk = world.static("tower", "desk")
    world.join(instance_id="extra", rebalance_timeout_ms=8_000, session_timeout_ms=9_000)
    parked = world.join(
        member_id=desk.member_id, instance_id="desk", rebalance_timeout_ms=8_000, session_timeout_ms=9_000
    )
    for _ in range(6):
        world.wait(9_000)
        world.heartbeat(tower, instance_id="tower")

    world.wait(6_000)

    leads = world.answer(parked)
    assert leads.leader == desk.member_id
    assert {member.instance_id for member in leads.members} == {"tower", "desk", "extra"}


def test_when_only_absent_static_members_are_left_the_group_waits_for_their_sessions():
    """
    If only static members that have not joined again are left, no generation starts until their sessions end, because
    none of them can lead it.
    """
    world = World()
    (desk,) = world.static("desk")
    extra = world.join(member_id="", rebalance_timeout_ms=5_000, must_know_member_id=True)
    assert extra.error_code == errors.MEMBER_ID_REQUIRED
    world.join(member_id=desk.member_id, instance_id="desk", rebalance_timeout_ms=5_000)

    world.wait(100_000)

    assert world.state() == "Empty"
    assert world.describe().members == ()


def test_a_new_member_that_waits_too_long_is_removed():
    """
    A new member whose JoinGroup has been parked for five minutes is removed, as in Kafka, because its client has most
    likely given up.
    """
    world = World()
    slow, _ = world.stable(2, rebalance_timeout_ms=400_000, session_timeout_ms=1_000_000)

    parked = world.join(rebalance_timeout_ms=400_000)
    world.wait(300_000)

    assert world.answer(parked).error_code == errors.UNKNOWN_MEMBER_ID
    assert world.heartbeat(slow) == errors.REBALANCE_IN_PROGRESS


def test_an_assignment_that_does_not_fit_the_log_is_refused():
    """
    If an assignment is too large for a record of the log, the members get the same error as in Kafka, and the group
    rebalances.
    """
    world = World(group_metadata_bytes_max=1_000)
    parked = world.join()
    world.wait(3_000)
    member = world.answer(parked)

    refused = world.sync(member, assignments=((member.member_id, bytes(1_000)),))

    assert refused.error_code == errors.UNKNOWN_SERVER_ERROR
    assert world.state() == "PreparingRebalance"
