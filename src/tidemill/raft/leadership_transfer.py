"""A leader's transfer of leadership to another voter.  Ongaro's thesis §3.10.

The leader stops accepting proposals, waits until the target holds the whole log, and sends it a TimeoutNow, which makes
the target campaign immediately, without a pre-vote.  If the leader still leads after TRANSFER_MS, the transfer has
failed, and the leader accepts proposals again.
"""

from typing import Final

from tidemill.model.broker_id import ReplicaKey

TRANSFER_MS: Final = 1_500


class LeadershipTransfer:
    __slots__ = ("_until_ms", "target")

    def __init__(self) -> None:
        self.target: ReplicaKey | None = None  # None: no transfer is under way
        self._until_ms: int | None = None  # when the transfer counts as failed; None until its first tick

    def begin(self, target: ReplicaKey) -> None:
        self.target, self._until_ms = target, None

    def cancel(self) -> None:
        self.target = None

    def tick(self, now_ms: int) -> None:
        if self.target is None:
            return
        if self._until_ms is None:
            self._until_ms = now_ms + TRANSFER_MS
        elif now_ms >= self._until_ms:
            self.cancel()
