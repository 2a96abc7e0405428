"""The window bounds the messages and bytes in flight to one member, and responses advance it."""

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
    The messages in flight never exceed the window; otherwise the leader would send a lagging follower the whole log
    after each probe.
    """
    transcript = Transcript()
    transcript.window = window
    transcript.do_voters("1", "2", "3")
    transcript.do_elect("1")
    transcript.do_stabilize()

    for _ in range(ENTRIES):
        transcript.do_propose("1", TEXT)

    assert most == len(entries_under_way(transcript))
    transcript.do_send("1>2")
    transcript.do_sync("2")
    transcript.do_send("2>1", "*")
    under_way = entries_under_way(transcript)  # one message was acknowledged, and the leader has sent another
    assert min(most, ENTRIES - 1) == len(under_way)
    transcript.do_stabilize()
    assert transcript.replicas[2].commit_index == transcript.replicas[1].last_index == ENTRIES + 1


def entries_under_way(transcript: Transcript) -> list[AppendEntries]:
    """Return the messages with entries that are in flight from replica 1 to replica 2."""
    return [message for message in transcript.messages[1, 2] if isinstance(message, AppendEntries) and message.entries]
