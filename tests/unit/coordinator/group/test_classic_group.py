"""The table of moves, and what a group reads from its members."""

import itertools

import pytest

from tests.unit.coordinator.group.group_world import World
from tidemill.coordinator.group.classic_group import TRANSITIONS, ClassicGroup, GroupState, Signal

ILLEGAL = [pair for pair in itertools.product(GroupState, Signal) if pair not in TRANSITIONS]


@pytest.mark.parametrize(("state", "signal"), ILLEGAL, ids=str)
def test_a_move_that_is_not_in_the_table_is_our_own_bug(state, signal):
    """
    Requests that do not fit are refused before.
    """
    group = ClassicGroup("g", 0)
    group.state = state

    with pytest.raises(KeyError):
        group.move(signal, 1)


def test_every_state_can_be_reached_and_only_dead_is_final():
    """
    The table has no islands.
    """
    assert {GroupState.EMPTY, *TRANSITIONS.values()} == set(GroupState)
    assert {state for state, _ in TRANSITIONS} == set(GroupState) - {GroupState.DEAD}


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x09ab"])
def test_metadata_that_cannot_be_read_leaves_the_subscription_unknown(metadata):
    """
    Only the members' own assignor has to understand it; an unknown subscription may be to anything.
    """
    world = World()

    world.stable(protocols=(("own", metadata),))

    assert world.groups._groups["g"].subscribed_topics is None
    assert world.groups._groups["g"].is_subscribed("anything")
