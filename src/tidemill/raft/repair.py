"""The two reasons why a replica accepts no entries: its files are damaged, or it is installing a snapshot.

    WHOLE ── a segment has unexpected content ───▶ DAMAGED ─┐
      │                                                     │ a snapshot offer is accepted
      └── its next entry is not in the leader's memory ─────┤
                                                            ▼
    WHOLE ◀── the INSTALLED row is durable ── INSTALLED ◀── INSTALLING
                                              (the row is queued)

A damaged replica neither votes nor counts towards a majority.  A replica that is installing a snapshot votes according
to its previous log, accepts no entries, and does not campaign.  A replica that was closed and is opened again begins
as if it were installing a snapshot.  `docs/raft.md` explains the rules.
"""

from typing import Final

from tidemill.raft.messages import SnapshotChunk, SnapshotOffer

DAMAGED_MS: Final = 500  # the interval at which a damaged replica repeats its report


class Repair:
    """
    The damage of one replica and its install, if any.

    Invariant: while `snapshot` is set, the log holds no entry that arrived after the snapshot offer.
    """

    __slots__ = ("_reported_ms", "chunks", "is_damaged", "is_installed", "offer", "snapshot")

    def __init__(self, *, snapshot: tuple[int, int] | None, is_damaged: bool) -> None:
        self.snapshot = snapshot  # index and term of the snapshot that is being installed, until the install is durable
        self.is_installed = False  # the row that ends the install is queued, but not durable yet
        self.is_damaged = is_damaged  # whether files are damaged; an install that is durable resets it
        self.offer: SnapshotOffer | None = None  # an accepted offer, which `Replica.ready` hands to the host
        self.chunks: list[SnapshotChunk] = []  # parts of the snapshot, for the host; `Replica.ready` hands them out
        self._reported_ms: int | None = None

    # Methods for damage.

    def mark_damaged(self) -> None:
        if self.is_installed:
            # In the journal, the row that ends the install precedes the DAMAGED row, so the install is complete.
            self.snapshot, self.is_installed = None, False
        self.is_damaged = True
        self._reported_ms = None

    def is_report_due(self, now_ms: int) -> bool:
        """Return whether to report the damage to the members now; if so, record `now_ms` as the time of the report."""
        if self._reported_ms is not None and now_ms - self._reported_ms < DAMAGED_MS:
            return False
        self._reported_ms = now_ms
        return True

    # Methods for the install of a snapshot.

    def may_accept(self, offer: SnapshotOffer) -> bool:
        """
        Return whether to install the offered snapshot.  A newer snapshot replaces an older one, until the row that ends
        the install is queued.
        """
        return self.snapshot is None or (offer.index >= self.snapshot[0] and not self.is_installed)

    def begin(self, offer: SnapshotOffer) -> None:
        self.snapshot = (offer.index, offer.index_term)
        self.offer = offer

    def installed(self) -> None:
        """Record that the row that ends the install is queued."""
        self.is_installed = True
        self.chunks.clear()

    def finish(self) -> None:
        """Record that the row that ends the install is durable: the replica is whole."""
        self.snapshot = None
        self.is_damaged = self.is_installed = False
