"""A leader with a full journal yields leadership, also to replicas that did not hear that it stepped down."""

from tests.unit.raft.replica_world import A, B, C, World
from tidemill.raft.journal_pressure import FULL_MS
from tidemill.raft.messages import TimeoutNow, VoteRequest


def step_down_unheard(world: World, *, is_full: bool) -> None:
    """B and C are stopped for 3 s, and A steps down meanwhile; what A sent waits in their sockets."""
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
    A replica with a full journal does not campaign, and while its broker is alive, followers that still believe in it
    neither campaign nor vote.  So it goes on asking them to campaign.
    """
    world = World()
    step_down_unheard(world, is_full=True)

    world.pass_time(5_000)

    assert any(world.leads)


def test_a_leader_that_stepped_down_with_room_campaigns_itself() -> None:
    """
    Followers that still believe in it do not campaign; its own campaign shows them that it does not lead.
    """
    world = World()
    step_down_unheard(world, is_full=False)

    world.pass_time(5_000)

    assert any(world.leads)


def test_a_follower_with_a_full_journal_does_not_disturb_the_leader() -> None:
    """
    Only a replica that has led may tell others to campaign.  This one never did, and misses the leader alone.
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
    A sleeping replica is ticked when a broker comes or goes.  Two such ticks that happen to find the journal full, an
    hour apart, do not mean that it was full in between.
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
    A has heard of B's term and not of its leader, because their connection broke.  A's TimeoutNow names the term that A
    led, so the others ignore it.
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
