"""The table of state transitions, and the subscriptions that are read from the members' metadata."""

import itertools

import pytest

from tests.unit.coordinator.group.group_world import World
from tidemill.coordinator.group.classic_group import TRANSITIONS, ClassicGroup, GroupState, Signal

ILLEGAL = [pair for pair in itertools.product(GroupState, Signal) if pair not in TRANSITIONS]


@pytest.mark.parametrize(("state", "signal"), ILLEGAL, ids=str)
def test_an_illegal_transition_raises(state, signal):
    """Invalid requests are rejected before any transition, so an illegal transition is a bug."""
    group = ClassicGroup("g", 0)
    group.state = state

    with pytest.raises(KeyError):
        group.transition(signal, 1)


def test_every_state_can_be_reached_and_only_dead_is_final():
    """Every state can be entered, and every state other than DEAD can be left."""
    assert {GroupState.EMPTY, *TRANSITIONS.values()} == set(GroupState)
    assert {state for state, _ in TRANSITIONS} == set(GroupState) - {GroupState.DEAD}


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x09ab"])
def test_unreadable_metadata_leaves_the_subscription_unknown(metadata):
    """Only the members' own assignor has to understand the metadata.  A subscription that cannot be read may include
    any topic.
    """
    world = World()

    world.stable(protocols=(("own", metadata),))

    assert world.groups._groups["g"].subscribed_topics is None
    assert world.groups._groups["g"].is_subscribed("anything")
