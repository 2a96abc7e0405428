"""CopyPacing: the turns of all copies of replicas that one broker sends: `rebalance/sent_copies` with a clock."""

from collections.abc import Callable
from typing import Final

from tidemill.rebalance.sent_copies import Copy, SentCopies

LOOK_AGAIN_MS: Final = 1_000  # a waiting copy is looked at this often, because the limit may have been raised


class CopyPacing:
    """The turns of the copies that one broker sends.  Runs on the event loop."""

    def __init__(
        self,
        monotonic_ms: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], object],
        limit_bytes_per_s: Callable[[], int],
    ) -> None:
        """`call_later` takes seconds and a callback.  `limit_bytes_per_s` is called once a second at most."""
        self.copies = SentCopies()
        self._monotonic_ms = monotonic_ms
        self._call_later = call_later
        self._limit = limit_bytes_per_s
        self._waiting: dict[Copy, Callable[[], None]] = {}

    def is_due(self, copy: Copy, resume: Callable[[], None]) -> bool:
        """Return whether `copy` may send now.  If not, call `resume` when it may, instead of an earlier `resume`."""
        if copy in self._waiting:
            self._waiting[copy] = resume
            return False
        wait_ms = self._wait_ms(copy)
        if wait_ms:
            self._waiting[copy] = resume
            self._look_in(copy, wait_ms)
        return not wait_ms

    def sent(self, copy: Copy, size: int) -> None:
        """Count bytes of `copy` that were sent."""
        self.copies.sent(copy, size, self._monotonic_ms())

    def end(self, copy: Copy) -> None:
        """Note that nothing more is sent for `copy`: its share goes to the others."""
        self.copies.end(copy)

    def _wait_ms(self, copy: Copy) -> int:
        now_ms = self._monotonic_ms()
        if self.copies.is_share_due(now_ms):
            self.copies.share(self._limit(), now_ms)
        return self.copies.wait_ms(copy, now_ms)

    def _look_in(self, copy: Copy, wait_ms: int) -> None:
        self._call_later(min(wait_ms, LOOK_AGAIN_MS) / 1_000, lambda: self._look(copy))

    def _look(self, copy: Copy) -> None:
        wait_ms = 0 if self.copies.has_ended(copy) else self._wait_ms(copy)
        if wait_ms:
            self._look_in(copy, wait_ms)
        else:
            self._waiting.pop(copy)()
