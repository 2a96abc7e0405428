"""LearnerPacing: makes what a leader sends to the learners of one shard wait for its turn.

A leader sends a copy in two ways: as chunks that a learner pulls (`shard/catch_up`), and as entries that it appends.  A
pull is answered later; no entries are sent to a learner that is paused.  Voters never wait, because commits wait for
them: a copy ends when its learner votes.
"""

from collections.abc import Callable

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.raft.messages import AppendEntries
from tidemill.raft.progress_tracker import ENTRY_OVERHEAD_BYTES
from tidemill.raft.ready import Ready
from tidemill.raft.replica import Replica
from tidemill.rebalance.sent_copies import Copy
from tidemill.shard.copy_pacing import CopyPacing


class LearnerPacing:
    def __init__(
        self,
        shard_id: ShardId,
        replica: Replica,
        pacing: CopyPacing | None,
        send_on: Callable[[ReplicaKey], None],
    ) -> None:
        """`send_on` is called when a learner has waited long enough.  Without `pacing`, no learner waits."""
        self._shard_id = shard_id
        self._replica = replica
        self._pacing = pacing
        self._send_on = send_on
        self._copied: dict[ReplicaKey, None] = {}  # the learners whose copies have begun

    @property
    def is_needed(self) -> bool:
        """Whether there are learners, or copies that may have ended: `pace` is to be called."""
        return bool(self._copied or self._replica.membership.learners)

    def is_due(self, member: ReplicaKey) -> bool:
        """Return whether bytes may be sent to `member` now.  If not, `send_on` is called when they may."""
        if self._pacing is None or member not in self._replica.membership.learners:
            return True
        self._copied[member] = None
        return self._pacing.is_due(Copy(self._shard_id, member), lambda: self._send_on(member))

    def sent(self, member: ReplicaKey, size: int) -> None:
        """Count bytes that were sent to `member`."""
        if self._pacing is not None and member in self._replica.membership.learners:
            self._copied[member] = None
            self._pacing.sent(Copy(self._shard_id, member), size)

    def pace(self, ready: Ready) -> None:
        """
        Count what was appended and sent, pause each learner that was sent more than its rate, and end the copies to
        members that are no learners any more.
        """
        if self._pacing is None:
            return
        self._end_copies(self._pacing)
        if ready.entries and self._pacing.copies.is_sent(self._shard_id):
            self._pacing.copies.written(self._shard_id, sum(entry.payload_bytes for entry in ready.entries))
        sent: dict[ReplicaKey, int] = {}
        for to, message in ready.messages:
            if isinstance(message, AppendEntries) and message.entries:
                size = sum(ENTRY_OVERHEAD_BYTES + entry.payload_bytes for entry in message.entries)
                sent[to] = sent.get(to, 0) + size
        for member, size in sent.items():
            self.sent(member, size)
            if not self.is_due(member):
                self._replica.pause(member, is_paused=True)

    def _end_copies(self, pacing: CopyPacing) -> None:
        learners = self._replica.membership.learners if self._replica.leads else ()
        for member in [member for member in self._copied if member not in learners]:
            del self._copied[member]
            pacing.end(Copy(self._shard_id, member))
