"""The deadlines of one coordinator, and the changes to them that the host has not received yet.

Each heartbeat postpones a session's deadline.  The host is not notified of the change: its timer fires at the earlier
time, and the coordinator then sets the timer to the later time.  A heartbeat therefore needs only dict operations, and
no timer.
"""

from tidemill.coordinator.result import Key


class Deadlines:
    __slots__ = ("_armed", "_changes", "_due")

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._armed: dict[Key, int] = {}  # the time at which the host's timer fires; never later than `_due`
        self._changes: dict[Key, int | None] = {}  # not yet returned by `take_changes`

    def set(self, key: Key, at_ms: int) -> None:
        self._due[key] = at_ms
        armed = self._armed.get(key)
        if armed is None or at_ms < armed:
            self._arm(key, at_ms)

    def cancel(self, key: Key) -> None:
        self._due.pop(key, None)
        if self._armed.pop(key, None) is not None:
            self._changes[key] = None

    def fired(self, key: Key, now_ms: int) -> bool:
        """Handle the expiry of the host's timer for a deadline.  Return whether the deadline has been reached; if it
        was postponed, set the timer again.
        """
        self._armed.pop(key, None)
        at_ms = self._due.get(key)
        if at_ms is None:
            return False
        if now_ms < at_ms:
            self._arm(key, at_ms)
            return False
        del self._due[key]
        return True

    def take_changes(self) -> tuple[tuple[Key, int | None], ...]:
        changes = tuple(self._changes.items())
        self._changes.clear()
        return changes

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def check_invariants(self) -> None:
        assert not self._changes, "the host has received every change"
        assert self._due.keys() == self._armed.keys(), "the host has a timer for each deadline and no other"
        assert all(self._armed[key] <= at_ms for key, at_ms in self._due.items()), "no timer fires after its deadline"

    def _arm(self, key: Key, at_ms: int) -> None:
        self._armed[key] = at_ms
        self._changes[key] = at_ms
