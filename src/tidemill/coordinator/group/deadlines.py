"""Deadlines of one coordinator: what is due when, and what the host has been told of it.

A heartbeat moves a session's deadline further away many times before it is ever reached.  The host is not told of
that: it calls at the earlier time, and is then given the later one.  So a heartbeat costs two dict writes and no timer.
"""

from tidemill.coordinator.result import Key


class Deadlines:
    __slots__ = ("_armed", "_changes", "_due")

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._armed: dict[Key, int] = {}  # the host will call then; never later than what is due
        self._changes: dict[Key, int | None] = {}  # not yet told to the host

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
        """The host's timer went off: whether the deadline is really reached.  If not, the host is told the new time."""
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
        assert not self._changes, "every change was told"
        assert self._due.keys() == self._armed.keys(), "the host knows of every deadline, and of no other"
        assert all(self._armed[key] <= at_ms for key, at_ms in self._due.items()), "the host never calls too late"

    def _arm(self, key: Key, at_ms: int) -> None:
        self._armed[key] = at_ms
        self._changes[key] = at_ms
