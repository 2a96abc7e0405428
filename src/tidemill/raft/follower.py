"""The follower's side of replication: which entries and snapshots a follower accepts, and which it acknowledges.

Ongaro & Ousterhout 2014 §5.3 and §7.  The leader's side is `raft/progress_tracker.py`.

Invariants:
- `match_index` is the index up to which the log is known to match the leader's; it is reset for every new leader.
- A follower acknowledges the lower of `match_index` and the log's `durable_index`, and nothing while it installs a
  snapshot or is damaged.
- Committed entries match the entries of every leader, and so does an installed snapshot.
"""

from tidemill.model.broker_id import ReplicaKey
from tidemill.raft.elections import Elections
from tidemill.raft.messages import AppendEntries, AppendEntriesResponse, Damaged, Message, SnapshotChunk, SnapshotOffer
from tidemill.raft.open_log import OpenLog
from tidemill.raft.repair import Repair
from tidemill.raft.role import Role
from tidemill.raft.voters import Membership


class Follower:
    __slots__ = ("_elections", "_log", "_me", "_outbox", "_repair", "match_index")

    def __init__(
        self,
        *,
        me: ReplicaKey,
        log: OpenLog,
        elections: Elections,
        repair: Repair,
        outbox: list[tuple[ReplicaKey, Message]],
    ) -> None:
        self._me = me
        self._log = log
        self._elections = elections
        self._repair = repair
        self._outbox = outbox
        self.match_index = 0

    def follow(self, leader: ReplicaKey) -> None:
        """Accept `leader` as the leader of this term: it has sent a message that only a leader sends."""
        elections = self._elections
        if elections.role is not Role.FOLLOWER or elections.leader != leader:
            assert elections.role is not Role.LEADER, f"{leader} and {self._me} lead term {elections.term}"
            elections.follow(elections.term, leader)

    # Methods that accept and acknowledge entries.

    def on_append(self, sender: ReplicaKey, append: AppendEntries) -> None:
        term = self._elections.term
        if append.term < term:
            self._outbox.append((sender, AppendEntriesResponse(term=term, rejected_index=max(append.prev_index, 1))))
            return
        self.follow(sender)
        if self._repair.snapshot is not None:
            self._answer_installing()
            return
        if self._repair.is_damaged:
            self._outbox.append((sender, self._damage_report()))
            return
        log = self._log
        entries = append.entries
        prev_index = append.prev_index
        base_index = log.first_index - 1
        if prev_index < base_index:  # entries before `first_index` are committed, so they match
            entries = entries[base_index - prev_index :]
        elif not log.holds(prev_index, append.prev_term):
            self._reject(sender, append)
            return
        log.append_missing(entries)
        self.match_index = max(self.match_index, prev_index + len(append.entries))
        log.commit(min(append.commit_index, self.match_index))
        if append.serial or log.durable_index >= self.match_index:
            self.acknowledge(append.serial)  # in other cases, `Replica.advance` does so once the entries are durable

    def _reject(self, sender: ReplicaKey, append: AppendEntries) -> None:
        log = self._log
        hint = log.probable_match(append.prev_index, append.prev_term)
        rejection = AppendEntriesResponse(
            term=self._elections.term,
            serial=append.serial,
            commit_index=log.commit_index,
            rejected_index=append.prev_index,
            hint_index=hint,
            hint_term=log.term_at(hint) if hint >= log.first_index - 1 else 0,
        )
        self._outbox.append((sender, rejection))

    def acknowledge(self, serial: int) -> None:
        """Report to the leader the index up to which this log is durable and matches the leader's."""
        leader, log = self._elections.leader, self._log
        assert leader is not None, "there is no leader to answer"
        match, durable = self.match_index, log.durable_index
        answer = AppendEntriesResponse(
            term=self._elections.term,
            serial=serial,
            match_index=match if match < durable else durable,
            commit_index=log.commit_index,
        )
        self._outbox.append((leader, answer))

    # Methods that install snapshots.

    def on_offer(self, sender: ReplicaKey, offer: SnapshotOffer) -> None:
        term = self._elections.term
        if offer.term < term:
            self._outbox.append((sender, AppendEntriesResponse(term=term, rejected_index=1)))
            return
        self.follow(sender)
        repair, log = self._repair, self._log
        has_it = offer.index <= log.commit_index or log.holds(offer.index, offer.index_term)
        if repair.is_damaged and (offer.index_term, offer.index) < self._repair_floor():
            # The snapshot lacks entries that this replica may have acknowledged.
            self._outbox.append((sender, self._damage_report()))
        elif repair.snapshot is None and has_it and not repair.is_damaged:
            self.match_index = max(self.match_index, offer.index)
            self.acknowledge(0)
        elif repair.may_accept(offer):
            repair.begin(offer)
            self.match_index = 0
        elif repair.snapshot is not None and offer.index < repair.snapshot[0]:
            self._answer_installing()

    def _answer_installing(self) -> None:
        """Tell the leader which snapshot is being installed: a new leader might otherwise offer an older one."""
        leader, snapshot = self._elections.leader, self._repair.snapshot
        assert leader is not None and snapshot is not None, "there is no leader, or no install"
        answer = AppendEntriesResponse(term=self._elections.term, commit_index=snapshot[0], is_installing=True)
        self._outbox.append((leader, answer))

    def on_chunk(self, sender: ReplicaKey, chunk: SnapshotChunk) -> None:
        """Pass a chunk of the snapshot that is being installed to the host."""
        repair, elections = self._repair, self._elections
        is_expected = repair.snapshot is not None and chunk.index == repair.snapshot[0]
        if is_expected and chunk.term == elections.term and sender == elections.leader:
            repair.chunks.append(chunk)

    def installed(self, membership: Membership) -> None:
        """Record that the row that ends the install is queued, and that the host's log begins after the snapshot."""
        repair = self._repair
        assert repair.snapshot is not None, "nothing was offered"
        self._log.installed(repair.snapshot[0], membership, is_damaged=repair.is_damaged)
        repair.installed()
        self.match_index = 0

    def install_is_durable(self) -> None:
        """Record that the installed snapshot is durable: the replica is whole, and may acknowledge the snapshot."""
        assert self._repair.snapshot is not None, "nothing was offered"
        self.match_index = self._repair.snapshot[0]
        self._repair.finish()

    # Methods that report damage.

    def report_damage(self, now_ms: int) -> None:
        """Report the damage to every member, at most twice a second."""
        if self._repair.is_report_due(now_ms):
            report = self._damage_report()
            self._outbox += [(member, report) for member in self._log.memberships.current.members if member != self._me]

    def _damage_report(self) -> Damaged:
        last_term, last_index = self._repair_floor()
        return Damaged(term=self._elections.term, last_index=last_index, last_term=last_term)

    def _repair_floor(self) -> tuple[int, int]:
        """
        Return the term and index of the last entry that this replica may have acknowledged.  A snapshot must reach them
        to repair the replica.  The index is at least 1, because no snapshot is empty.
        """
        return self._log.last_term, max(self._log.last_index, 1)
