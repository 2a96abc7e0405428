"""A leader with a full journal yields leadership, even to replicas that did not learn that it stepped down."""

from tests.unit.raft.replica_world import A, B, C, World
from tidemill.raft.journal_pressure import FULL_MS
from tidemill.raft.messages import TimeoutNow, VoteRequest


def step_down_unheard(world: World, *, is_full: bool) -> None:
    """Pause B and C for 3 s, during which A steps down.  A's messages to them remain undelivered."""
    world.pass_time(2_000)
    assert [True, False, False] == world.leads
    world.paused = {B, C}
    world.pass_time(1_000)
    world.full = {A} if is_full else set()
    world.pass_time(1_000)
    world.unheard = {B, C}
    world.pass_time(1_000)
    assert [False, False, False] == world.leads
    world.paused, world.unheard = set(), set()


def test_another_replica_leads_after_a_leader_with_a_full_journal_has_stepped_down() -> None:
    """
    After a leader with a full journal has stepped down, it keeps asking the followers to campaign until another replica
    leads.  It does not campaign itself, and followers that still consider it the live leader neither vote nor campaign
    without a TimeoutNow.
    """
    world = World()
    step_down_unheard(world, is_full=True)

    world.pass_time(5_000)

    assert any(world.leads)


def test_a_leader_that_stepped_down_with_room_campaigns_itself() -> None:
    """
    A leader that stepped down without a full journal campaigns itself, because the followers still consider it the
    leader and do not campaign.
    """
    world = World()
    step_down_unheard(world, is_full=False)

    world.pass_time(5_000)

    assert any(world.leads)


def test_a_follower_with_a_full_journal_does_not_disturb_the_leader() -> None:
    """
    A follower with a full journal that cannot hear the leader does not disturb it: only a replica that has led may ask
    others to campaign.
    """
    world = World()
    world.pass_time(2_000)
    world.full = world.deaf = {C}

    world.pass_time(20_000)

    assert [True, False, False] == world.leads
    assert 1 == world.replicas[A].term


def asks_to_lead(world: World) -> int:
    return sum(isinstance(message, TimeoutNow) for _, _, message in world.mail)


def test_time_asleep_does_not_count_as_time_with_a_full_journal() -> None:
    """
    A sleeping replica is ticked when a broker goes down or comes back.  If two such ticks, an hour apart, find the
    journal full, the journal need not have been full in between.
    """
    world = World()
    world.pass_time(2_000)
    world.full = {A}
    world.pass_ms(A, 250)
    world.full = set()
    assert not world.replicas[A].needs_tick
    world.now_ms += 3_600_000
    world.full = {A}
    for _ in range(FULL_MS // 250):
        world.pass_ms(A, 250)
    before = asks_to_lead(world)
    world.pass_ms(A, 250)

    assert (0, 1) == (before, asks_to_lead(world))


def test_a_former_leader_with_a_full_journal_does_not_disturb_a_later_term() -> None:
    """
    The former leader A knows the term of the new leader B but not that B leads, because their connection broke.  A's
    TimeoutNow carries the term in which A led, so the other replicas ignore it.
    """
    world = World()
    world.pass_time(2_000)
    world.full = {A}
    while not asks_to_lead(world):
        world.pass_ms(A, 250)
    while not any(isinstance(it[2], VoteRequest) for it in world.mail):
        world.step()
    world.step()
    assert 2 == world.replicas[A].term
    world.cut = {A, B}
    world.pass_time(20_000)

    assert [False, True, False] == world.leads
    assert 2 == world.replicas[B].term
