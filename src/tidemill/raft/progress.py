"""The leader's view of one member: how far the logs match, and what is in flight to it.

PROBE      The leader does not know where the logs match.  One message is in flight at a time.
REPLICATE  The logs match.  Messages are pipelined, up to the window.
SNAPSHOT   The member's next entry is no longer in the leader's memory, or the member is installing a snapshot.  The
           leader sends no entries; the member pulls a snapshot.

       accepted             message lost
PROBE ──────────▶ REPLICATE ──────────────▶ PROBE
  └── next entry not in memory ──▶ SNAPSHOT ── member has the snapshot ──▶ REPLICATE
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from tidemill.raft.status import MemberStatus


class ProgressState(StrEnum):
    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The limits on messages in flight to one member.  At a limit, the leader waits for a response."""

    messages_max: int = 64
    bytes_max: int = 4 << 20
    entries_max: int = 1_024  # entries in one message
    message_bytes_max: int = 1 << 20  # bytes in one message; a single entry may be larger


@dataclass(slots=True, kw_only=True)
class Progress:
    next_index: int  # the next entry to send
    match_index: int = 0  # the member's durable log matches the leader's up to this index
    commit_index: int = 0  # the member's commit index, as the member last reported it
    commit_sent: int = 0  # the highest commit index sent to the member
    serial_sent: int = 0  # the newest read index round sent to the member
    state: ProgressState = ProgressState.PROBE
    # Only for a damaged member: the term and index that a snapshot must reach to repair it.  A damaged member does not
    # count towards a majority.
    repair_floor: tuple[int, int] | None = None
    is_waiting: bool = False  # a probe is in flight
    is_paused: bool = False  # the host lets the leader send no entries for the time being
    is_offered: bool = False  # a snapshot has been offered, and the member has pulled bytes of it recently
    snapshot_index: int = 0  # the index of the offered snapshot; later entries are kept in memory for this member
    # When the member last responded, or when the oldest unanswered message was sent, in ms on the tick's clock.  None
    # until the next tick sets it.
    heard_at: int | None = None
    absent_since: int | None = None  # the tick that found the member absent, in ms; None while it is alive
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)  # last index and bytes of each message
    in_flight_bytes: int = 0

    def status(self) -> MemberStatus:
        return MemberStatus(
            self.match_index, self.commit_index, self.state is ProgressState.SNAPSHOT, self.repair_floor
        )

    def may_send(self, window: Window) -> bool:
        if self.is_paused:
            return False
        if self.state is ProgressState.REPLICATE:
            return len(self.in_flight) < window.messages_max and self.in_flight_bytes < window.bytes_max
        return self.state is ProgressState.PROBE and not self.is_waiting

    @property
    def is_owed(self) -> bool:
        """Whether the member has not answered a message yet."""
        return self.is_waiting or bool(self.in_flight)

    def sent(self, last_index: int, size: int) -> None:
        """Record that a message of `size` bytes, with entries up to `last_index`, was sent."""
        if not self.is_owed:
            self.heard_at = None
        if self.state is ProgressState.PROBE:
            self.is_waiting = True
        else:
            self.in_flight.append((last_index, size))
            self.in_flight_bytes += size
            self.next_index = last_index + 1

    def accepted(self, match_index: int) -> bool:
        """Record that the member holds the log up to `match_index`.  Return whether its match index has advanced."""
        self.is_waiting = False
        self.repair_floor = None
        while self.in_flight and self.in_flight[0][0] <= match_index:
            self.in_flight_bytes -= self.in_flight.popleft()[1]
        is_news = match_index > self.match_index
        if is_news:
            self.match_index = match_index
        self.next_index = max(self.next_index, self.match_index + 1)
        if self.state is not ProgressState.REPLICATE:
            self.state = ProgressState.REPLICATE
            self.next_index = self.match_index + 1
        return is_news

    def install(self) -> None:
        """Switch to SNAPSHOT, and forget the messages in flight."""
        if self.state is not ProgressState.SNAPSHOT:
            self.probe(self.next_index)
            self.state = ProgressState.SNAPSHOT
            self.is_offered = False
            self.snapshot_index = 0

    def damaged(self, repair_floor: tuple[int, int]) -> None:
        """Record that the member is damaged: its acknowledgements no longer count, and it needs a snapshot."""
        self.match_index = 0
        self.repair_floor = repair_floor
        self.install()

    @property
    def needed_index(self) -> int:
        """The first entry that the leader may still have to send to the member."""
        return max(self.match_index, self.snapshot_index if self.state is ProgressState.SNAPSHOT else 0) + 1

    def probe(self, next_index: int) -> None:
        """Switch to PROBE at `next_index`, because messages in flight may have been lost."""
        self.state = ProgressState.PROBE
        self.is_waiting = False
        self.next_index = max(next_index, self.match_index + 1)
        self.commit_sent = self.serial_sent = 0
        self.in_flight.clear()
        self.in_flight_bytes = 0

    def probe_again(self) -> None:
        """Probe after the match index; if no match is known, repeat the last probe."""
        self.probe(self.match_index + 1 if self.match_index else self.next_index)
