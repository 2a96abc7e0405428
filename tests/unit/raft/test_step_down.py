"""A leader that cannot stand again steps down: whoever does not hear of it must not follow it for ever."""

from tests.unit.raft.replica_world import A, B, C, World


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


def test_somebody_leads_after_a_leader_whose_journal_is_full_has_stepped_down() -> None:
    """
    It stands for nothing while it has no room, and lives: nobody else would stand, or vote, for its sake.
    """
    world = World()
    step_down_unheard(world, is_full=True)

    world.pass_time(5_000)

    assert any(world.leads)


def test_one_that_has_room_stands_itself() -> None:
    world = World()
    step_down_unheard(world, is_full=False)

    world.pass_time(5_000)

    assert any(world.leads)


def test_who_never_led_deposes_nobody_though_it_is_full_and_hears_no_leader() -> None:
    """
    It is cut off from the leader alone.
    """
    world = World()
    world.pass_time(2_000)
    world.full = world.deaf = {C}

    world.pass_time(20_000)

    assert [True, False, False] == world.leads
    assert 1 == world.replicas[A].term
