"""The window bounds what is in flight to one member, in messages and in bytes, and moves with the responses."""

import pytest

from tests.unit.raft.transcript import Transcript
from tidemill.raft.messages import AppendEntries
from tidemill.raft.progress import Window

ENTRIES = 9
TEXT = "x" * 100


@pytest.mark.parametrize(
    ("window", "most"),
    [
        (Window(entries_max=1, messages_max=3), 3),
        (Window(entries_max=1, bytes_max=2 * len(TEXT)), 2),  # an entry costs more than its payload
        (Window(entries_max=1), ENTRIES),
    ],
    ids=["messages", "bytes", "room"],
)
def test_no_more_is_in_flight_than_the_window_allows(window: Window, most: int) -> None:
    """
    Without the bound, a lagging follower would be sent the whole log after each probe.
    """
    hand = Transcript()
    hand.window = window
    hand.do_voters("1", "2", "3")
    hand.do_elect("1")
    hand.do_stabilize()

    for _ in range(ENTRIES):
        hand.do_propose("1", TEXT)

    assert most == len(entries_under_way(hand))
    hand.do_send("1>2")
    hand.do_sync("2")
    hand.do_send("2>1", "*")
    assert min(most, ENTRIES - 1) == len(entries_under_way(hand))  # one message was acknowledged, and another was sent
    hand.do_stabilize()
    assert hand.replicas[2].commit_index == hand.replicas[1].last_index == ENTRIES + 1


def entries_under_way(hand: Transcript) -> list[AppendEntries]:
    """Return the messages with entries that are in flight from the leader to one follower."""
    return [message for message in hand.messages[1, 2] if isinstance(message, AppendEntries) and message.entries]
