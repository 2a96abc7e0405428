"""How far one member's log is known to be alike with its leader's, and what is on its way to it.

PROBE      one message at a time, until one is accepted: where do the logs meet?
REPLICATE  as much on the way as the window allows, without waiting for answers
SNAPSHOT   what it needs is not in memory here any more, or it is installing: it pulls a snapshot's bytes first

       accepted                  lost or rejected
PROBE ──────────▶ REPLICATE ──────────────────────▶ PROBE
  └──── its next entry is gone here ────▶ SNAPSHOT ──── it has all below that ────▶ REPLICATE
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
    """What may be on the way to one member."""

    messages_max: int = 64
    bytes_max: int = 4 << 20
    entries_max: int = 1_024  # in one message
    message_bytes_max: int = 1 << 20  # in one message, but for one large entry


@dataclass(slots=True, kw_only=True)
class Progress:
    next_index: int  # of the next entry that is sent
    match_index: int = 0
    commit_index: int = 0  # that the member has told
    commit_sent: int = 0
    serial_sent: int = 0
    state: ProgressState = ProgressState.PROBE
    repair_floor: tuple[int, int] | None = (
        None  # term and index of the last entry that a damaged member may have answered
    )
    # for: it has lost of that, and counts nowhere until it answers for it again
    is_waiting: bool = False  # a probe is on the way
    is_offered: bool = False  # a snapshot: it was told, and has asked for bytes of it not long ago
    snapshot_index: int = 0  # of that one; what comes behind it is kept for this member
    heard_at: int | None = None  # when it last answered, or was sent something after all was answered; None: since the
    # last tick
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)  # (last index, bytes) of each message
    in_flight_bytes: int = 0

    def status(self) -> MemberStatus:
        return MemberStatus(
            self.match_index, self.commit_index, self.state is ProgressState.SNAPSHOT, self.repair_floor
        )

    def may_send(self, window: Window) -> bool:
        if self.state is ProgressState.REPLICATE:
            return len(self.in_flight) < window.messages_max and self.in_flight_bytes < window.bytes_max
        return self.state is ProgressState.PROBE and not self.is_waiting

    @property
    def is_owed(self) -> bool:
        """Something was sent that was not answered yet."""
        return self.is_waiting or bool(self.in_flight)

    def sent(self, last_index: int, size: int) -> None:
        """A message with entries up to `last_index`, or with none."""
        if not self.is_owed:
            self.heard_at = None
        if self.state is ProgressState.PROBE:
            self.is_waiting = True
        else:
            self.in_flight.append((last_index, size))
            self.in_flight_bytes += size
            self.next_index = last_index + 1

    def accepted(self, match_index: int) -> bool:
        """Whether that is news."""
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
        """Files first; what is on the way says nothing any more."""
        if self.state is not ProgressState.SNAPSHOT:
            self.probe(self.next_index)
            self.state = ProgressState.SNAPSHOT
            self.is_offered = False
            self.snapshot_index = 0

    def damaged(self, repair_floor: tuple[int, int]) -> None:
        """What it answered for does not count any more; it needs a snapshot, whatever it has of it."""
        self.match_index = 0
        self.repair_floor = repair_floor
        self.install()

    @property
    def needed_index(self) -> int:
        """The first entry that it will be sent, as far as is known."""
        return max(self.match_index, self.snapshot_index if self.state is ProgressState.SNAPSHOT else 0) + 1

    def probe(self, next_index: int) -> None:
        """Begin again from there: what is on the way may be lost."""
        self.state = ProgressState.PROBE
        self.is_waiting = False
        self.next_index = max(next_index, self.match_index + 1)
        self.commit_sent = self.serial_sent = 0
        self.in_flight.clear()
        self.in_flight_bytes = 0

    def probe_again(self) -> None:
        """From where the logs are known to be alike, or, where nothing is known, from where it was asked last."""
        self.probe(self.match_index + 1 if self.match_index else self.next_index)
