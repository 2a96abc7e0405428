"""A leader without room asks others to lead; whoever does not hear that it stepped down must not follow it for ever."""

from tests.unit.raft.replica_world import A, B, C, World
from tidemill.raft.journal_pressure import FULL_MS
from tidemill.raft.messages import TimeoutNow, VoteRequest


def step_down_unheard(world: World, *, is_full: bool) -> None:
    """B and C stand still for 3 s (SIGSTOP, say); what A says meanwhile waits in their sockets."""
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
    It stands for nothing while it has no room, and lives: nobody else would stand, or vote, for its sake.
    """
    world = World()
    step_down_unheard(world, is_full=True)

    world.pass_time(5_000)

    assert any(world.leads)


def test_a_leader_that_stepped_down_with_room_campaigns_itself() -> None:
    world = World()
    step_down_unheard(world, is_full=False)

    world.pass_time(5_000)

    assert any(world.leads)


def test_a_follower_with_a_full_journal_does_not_disturb_the_leader() -> None:
    """
    It is cut off from the leader alone.
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
    Somebody came or went, and all shards looked: in a moment without room, and in another an hour later.
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
    It has heard of that term, and never of who leads in it: their link broke.
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
