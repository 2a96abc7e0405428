"""Messages whose bytes must first be read from a segment."""

from collections.abc import Callable
from errno import EIO
from typing import Any, cast

import pytest

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.raft.entry import BATCH, Entry
from tidemill.raft.messages import AppendEntries, Message, VoteResponse
from tidemill.shard.outgoing import Outgoing
from tidemill.simulation.machine.jobs import SimulatedJobs
from tidemill.storage.journal.shard_log import ShardLog

TO = ReplicaKey(BrokerId(2), DirectoryId(b"2" * 16))


class StubLog:
    """A log whose segments are not in the page cache.  `found` simulates a read from the disk."""

    def __init__(self) -> None:
        self.found: Callable[[], bytes] = lambda: b"bytes"

    def payload_of(self, entry: Entry, *, may_wait: bool) -> Any:
        return self.found() if may_wait else None


def unread() -> AppendEntries:
    """Return a message whose bytes are in a segment and not in memory."""
    entry = Entry(BATCH, b"bytes", index=1, term=1, record_count=1)
    entry.payload = None
    return AppendEntries(term=1, prev_index=0, prev_term=0, entries=(entry,), commit_index=0)


def test_a_failed_read_does_not_block_later_messages() -> None:
    """
    If a read fails, the messages that waited for it are dropped, and later messages are sent.
    """
    log, jobs, sent = StubLog(), SimulatedJobs(), list[Message]()
    outgoing = Outgoing(
        cast(ShardLog, log), lambda _, message: sent.append(message), jobs, lambda _: None, lambda _: None
    )

    def unreadable() -> bytes:
        raise OSError(EIO, "Input/output error")

    log.found = unreadable
    outgoing.send(TO, unread())
    outgoing.send(TO, VoteResponse(term=1, is_granted=True))
    with pytest.raises(OSError, match="Input/output"):
        jobs.stabilize()
    outgoing.send(TO, VoteResponse(term=2, is_granted=True))

    assert [VoteResponse(term=2, is_granted=True)] == sent
