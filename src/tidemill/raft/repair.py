"""What keeps a replica from taking entries: damaged files, and a snapshot that is being installed.

    WHOLE ── a segment is not what was written ──▶ DAMAGED ─┐
      │                                                     │ a snapshot offer is accepted
      └── its next entry is not in the leader's memory ─────┤
                                                            ▼
    WHOLE ◀── the INSTALLED row is durable ── INSTALLED ◀── INSTALLING
                                              (the row is queued)

A damaged replica neither votes nor counts.  One that installs votes with the log that it had before, takes no entry,
and does not campaign.  `docs/raft.md` has the rules and their reasons.
"""

from typing import Final

from tidemill.raft.messages import SnapshotChunk, SnapshotOffer

DAMAGED_MS: Final = 500  # a damaged replica repeats its report this often


class Repair:
    """
    Invariant: while `snapshot` is set, the log holds no entry that was taken after the offer.
    """

    __slots__ = ("_reported_ms", "chunks", "is_damaged", "is_installed", "offer", "snapshot")

    def __init__(self, *, snapshot: tuple[int, int] | None, is_damaged: bool) -> None:
        self.snapshot = snapshot  # index and term of what is being installed, from the offer until it is durable
        self.is_installed = False  # the row that ends the install is queued, and not durable yet
        self.is_damaged = is_damaged  # until an install is durable
        self.offer: SnapshotOffer | None = None  # for the host: `Replica.ready` takes it
        self.chunks: list[SnapshotChunk] = []  # likewise, of that snapshot
        self._reported_ms: int | None = None

    # Damage.

    def mark_damaged(self) -> None:
        if self.is_installed:
            self.snapshot, self.is_installed = None, False  # the journal holds the end of that install before the mark
        self.is_damaged = True
        self._reported_ms = None

    def is_report_due(self, now_ms: int) -> bool:
        """Whether to tell the members of the damage now; if so, the time counts as reported."""
        if self._reported_ms is not None and now_ms - self._reported_ms < DAMAGED_MS:
            return False
        self._reported_ms = now_ms
        return True

    # Installs.

    def accepts_writes(self, offer: SnapshotOffer) -> bool:
        """A newer snapshot replaces an older one until the row that ends the install is queued."""
        return self.snapshot is None or (offer.index >= self.snapshot[0] and not self.is_installed)

    def begin(self, offer: SnapshotOffer) -> None:
        self.snapshot = (offer.index, offer.index_term)
        self.offer = offer

    def installed(self) -> None:
        """The row that ends the install is queued."""
        self.is_installed = True
        self.chunks.clear()

    def finish(self) -> None:
        """That row is durable: the replica is whole."""
        self.snapshot = None
        self.is_damaged = self.is_installed = False
