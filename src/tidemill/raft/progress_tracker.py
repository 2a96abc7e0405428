"""The leader's side of replication: the progress of every other member, and the entries that a majority holds.

Ongaro & Ousterhout 2014 §5.3.  The follower's side is `raft/follower.py`; `raft/progress.py` defines the states of one
member.  A tracker is created when a replica becomes leader and dropped when it steps down; nothing in it is durable.
"""

from collections.abc import Callable, Iterator
from typing import Final

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft import quorum
from tidemill.raft.entry import Entry
from tidemill.raft.messages import AppendEntries, AppendEntriesResponse
from tidemill.raft.open_log import OpenLog
from tidemill.raft.progress import Progress, ProgressState, Window
from tidemill.raft.status import MemberStatus
from tidemill.raft.voters import Membership

RETRY_MS: Final = 500  # a message that is still unanswered after this time counts as lost
ENTRY_OVERHEAD_BYTES: Final = 80  # the size of an entry in a message, without its payload


class ProgressTracker:
    def __init__(self, me: ReplicaKey, log: OpenLog, membership: Membership, window: Window) -> None:
        self._me = me
        self._log = log
        self._window = window
        self.serial = 0  # the number of the newest read index round
        self._now_ms = 0  # the time of the last tick
        self.members: dict[ReplicaKey, Progress] = {}
        self.removed: set[ReplicaKey] = set()  # in this term
        self._serials: dict[ReplicaKey, int] = {}  # the newest round that each member has answered
        self.follow(membership)

    def follow(self, membership: Membership) -> None:
        """Adopt `membership`: begin to probe new members, forget removed ones, and end the pauses of new voters."""
        for member in membership.members:
            if member != self._me and member not in self.members:
                self.members[member] = Progress(next_index=self._log.last_index + 1)
        for member in [*self.members]:
            if member not in membership.members:
                del self.members[member]
                self.removed.add(member)
                self._serials.pop(member, None)
            elif member in membership.voters:
                self.members[member].is_paused = False

    @property
    def matches(self) -> dict[ReplicaKey, int]:
        """
        The match index of each other member that is not damaged.  Callers add the leader's own durable index.
        """
        return {member: it.match_index for member, it in self.members.items() if it.repair_floor is None}

    def status(self) -> dict[ReplicaKey, MemberStatus]:
        """Return the status of each other member."""
        return {member: progress.status() for member, progress in self.members.items()}

    def read_index_round(self, voters: tuple[ReplicaKey, ...]) -> int:
        """Return the newest read index round that a majority of `voters` has answered."""
        return quorum.reached_by_majority(voters, {**self._serials, self._me: self.serial})

    def majority_index(self, voters: tuple[ReplicaKey, ...], durable_index: int) -> int:
        """Return the last index that a majority of `voters` has on disk; `durable_index` is the leader's own."""
        if not self.members:
            return durable_index
        return quorum.reached_by_majority(voters, {**self.matches, self._me: durable_index})

    def replicated_index(self, voters: tuple[ReplicaKey, ...], durable_index: int, voter_count: int) -> int:
        """Return the last index that `voter_count` of `voters` have on disk; 0 if there are fewer voters."""
        if len(voters) < voter_count:
            return 0
        reached = {**self.matches, self._me: durable_index}
        return sorted((reached.get(voter, 0) for voter in voters), reverse=True)[voter_count - 1]

    def answered(self, member: ReplicaKey, answer: AppendEntriesResponse) -> bool:
        """Handle a response.  Return whether the member's match index has advanced."""
        progress = self.members.get(member)
        if progress is None:
            return False
        self._serials[member] = max(self._serials.get(member, 0), answer.serial)
        progress.commit_index = max(progress.commit_index, answer.commit_index)
        if answer.is_installing:
            progress.install()
            return False
        rejected = answer.rejected_index
        if progress.state is ProgressState.SNAPSHOT and (rejected or answer.match_index + 1 < self._log.first_index):
            if not rejected and answer.match_index >= progress.snapshot_index:
                progress.is_offered = False  # the member's next entry has since left memory: offer a newer snapshot
            return False
        if not rejected:
            progress.heard_at = None
            return progress.accepted(answer.match_index)
        # In REPLICATE the logs match, so either the rejected message arrived late, or an earlier one was lost and
        # `retry` will repeat it.
        if progress.state is ProgressState.PROBE and rejected == progress.next_index - 1:
            progress.heard_at = None
            meeting = self._log.probable_match(min(answer.hint_index, rejected - 1), answer.hint_term)
            progress.probe(meeting + 1)
        return False

    def peer_reconnected(self, member: ReplicaKey) -> None:
        """Handle a new connection to `member`: messages in flight may have been lost."""
        progress = self.members.get(member)
        if progress is not None:
            progress.is_offered = False
            if progress.state is not ProgressState.SNAPSHOT:
                progress.probe_again()

    def offered(self, member: ReplicaKey, index: int) -> None:
        """Record that a snapshot at `index` has been offered to `member`."""
        progress = self.members.get(member)
        if progress is not None:
            progress.is_offered = True
            progress.snapshot_index = index
            progress.heard_at = None

    def damaged(self, member: ReplicaKey, repair_floor: tuple[int, int], now_ms: int) -> None:
        """
        Record that `member` has reported damage and needs a snapshot.  If it still reports damage RETRY_MS after it was
        offered one, offer another, because the offer may have been lost.
        """
        progress = self.members.get(member)
        if progress is not None:
            self._serials.pop(member, None)
            progress.damaged(repair_floor)
            if progress.heard_at is not None and now_ms - progress.heard_at >= RETRY_MS:
                progress.is_offered = False

    def repair_floor(self, member: ReplicaKey) -> tuple[int, int] | None:
        """Return the term and index that a snapshot must reach to repair `member`; None if it is not damaged."""
        progress = self.members.get(member)
        return None if progress is None else progress.repair_floor

    def pulled(self, member: ReplicaKey) -> bool:
        """Record a pull from `member`.  Return whether to answer the pull: only if the member is in SNAPSHOT."""
        progress = self.members.get(member)
        if progress is None or progress.state is not ProgressState.SNAPSHOT:
            return False
        progress.heard_at = None
        return True

    def pause(self, member: ReplicaKey, *, is_paused: bool) -> None:
        """Send `member` no entries while `is_paused`.  Only a learner is paused: a commit waits for voters."""
        progress = self.members.get(member)
        if progress is not None:
            progress.is_paused = is_paused

    def needs_install(self, member: ReplicaKey) -> None:
        """Switch `member` to SNAPSHOT: the bytes of its next entry are gone, although its row is still in memory."""
        progress = self.members.get(member)
        if progress is not None:
            progress.install()

    def needed_index(self, is_alive: Callable[[ReplicaKey], bool], absent_ms_max: int) -> int:
        """
        Return the index of the first entry that the leader may still have to send to a live member, or to one that has
        been absent for less than `absent_ms_max`.
        """
        needed = [
            progress.needed_index
            for member, progress in self.members.items()
            if is_alive(member) or self._absent_ms(progress) < absent_ms_max
        ]
        return min(needed, default=self._log.last_index + 1)

    def _absent_ms(self, progress: Progress) -> int:
        """Return for how long a member that is not alive has been absent: 0 until the next tick."""
        return 0 if progress.absent_since is None else self._now_ms - progress.absent_since

    def retry(self, now_ms: int, commit_index: int, is_alive: Callable[[ReplicaKey], bool]) -> None:
        """
        Handle live members that have sent nothing for RETRY_MS: probe a member again if it has not answered a message
        or a read index round, or may lack the commit index; offer a member in SNAPSHOT a snapshot again.
        """
        self._now_ms = now_ms
        for member, progress in self.members.items():
            if is_alive(member):
                progress.absent_since = None
            elif progress.absent_since is None:
                progress.absent_since = now_ms
            if progress.heard_at is None:
                progress.heard_at = now_ms
            if now_ms - progress.heard_at < RETRY_MS or not is_alive(member):
                continue
            if progress.state is ProgressState.SNAPSHOT:
                progress.is_offered = False
                continue
            if self._is_owed(member, progress, commit_index):
                progress.heard_at = now_ms
                progress.probe_again()

    def waits_for_answers(self, commit_index: int, is_alive: Callable[[ReplicaKey], bool]) -> bool:
        """Return whether a live member may need a retry."""
        return any(
            self._is_owed(member, progress, commit_index) and is_alive(member)
            for member, progress in self.members.items()
        )

    def _is_owed(self, member: ReplicaKey, progress: Progress, commit_index: int) -> bool:
        lags = progress.commit_index < min(commit_index, progress.match_index)
        return (
            progress.state is ProgressState.SNAPSHOT
            or progress.is_owed
            or lags
            or self._serials.get(member, 0) < self.serial
        )

    def messages(self, term: int, commit_index: int) -> Iterator[tuple[ReplicaKey, AppendEntries]]:
        """Yield the messages that may be sent now.  A member whose next entry is not in memory switches to SNAPSHOT."""
        log = self._log
        for member, progress in self.members.items():
            while progress.may_send(self._window):
                prev_index = progress.next_index - 1
                if prev_index < log.first_index - 1:
                    progress.install()
                    break
                entries, size = self._entries_from(progress)
                known = min(commit_index, prev_index + len(entries))
                has_news = entries or known > progress.commit_sent or self.serial > progress.serial_sent
                if progress.state is ProgressState.REPLICATE and not has_news:
                    break
                progress.commit_sent = max(progress.commit_sent, known)
                progress.serial_sent = self.serial
                progress.sent(prev_index + len(entries), size)
                yield (
                    member,
                    AppendEntries(
                        term=term,
                        prev_index=prev_index,
                        prev_term=log.term_at(prev_index),
                        entries=tuple(entries),
                        commit_index=known,
                        serial=self.serial,
                    ),
                )

    def _entries_from(self, progress: Progress) -> tuple[list[Entry], int]:
        """Return the next message's entries and their size.  Probes carry entries, too, because most are accepted."""
        window, log = self._window, self._log
        entries: list[Entry] = []
        size = 0
        for index in range(progress.next_index, log.last_index + 1):
            entry = log.entry_at(index)
            size += ENTRY_OVERHEAD_BYTES + entry.payload_bytes
            if entries and (size > window.message_bytes_max or len(entries) == window.entries_max):
                size -= ENTRY_OVERHEAD_BYTES + entry.payload_bytes
                break
            entries.append(entry)
        return entries, size

    def needing_offer(self) -> list[ReplicaKey]:
        """Return the members in SNAPSHOT that wait for an offer."""
        return [
            member
            for member, progress in self.members.items()
            if progress.state is ProgressState.SNAPSHOT and not progress.is_offered
        ]
