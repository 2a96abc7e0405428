"""Silence: how long one broker has been silent, and how long it has been live, as the controller hears it.

Silence lasts until the broker has been live for a while without a gap.  So a broker that comes and goes every 20 s is
silent all the time, and is replaced in the end.
"""


class Silence:
    __slots__ = ("_live_since_ms", "_well_at_ms")

    def __init__(self, now_ms: int, *, silent_since_ms: int | None = None) -> None:
        """Begin to watch a broker.  `silent_since_ms` is known if a former controller recorded that it is silent."""
        self._live_since_ms: int | None = None
        self._well_at_ms = now_ms if silent_since_ms is None else silent_since_ms

    def observe(self, is_live: bool, now_ms: int, *, active_after_ms: int) -> None:
        """Note whether the controller hears the broker now; call it once a second and at every change."""
        if not is_live:
            self._live_since_ms = None
            return
        if self._live_since_ms is None:
            self._live_since_ms = now_ms
        if self.live_ms(now_ms) >= active_after_ms:
            self._well_at_ms = now_ms

    def live_ms(self, now_ms: int) -> int:
        return 0 if self._live_since_ms is None else now_ms - self._live_since_ms

    def silent_ms(self, now_ms: int) -> int:
        return now_ms - self._well_at_ms
