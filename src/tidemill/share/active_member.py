"""The one member that may acquire the records of an exclusive share.

    acquires            a member with a waiting fetch becomes the active one, if there is none
    loses a lock        or leaves: it is not the active one any more
    is silent           likewise: while records are available, it holds none and sends no fetch for one lock duration

Only a fetch that finds records makes its member the active one, so a member that never fetches is never chosen.
"""


class ActiveMember:
    def __init__(self) -> None:
        self.name: str | None = None
        self._silent_since: int | None = None

    def admits(self, member: str) -> bool:
        """Return whether a member may become, or is, the active one."""
        return self.name in (None, member)

    def acquired(self, member: str) -> None:
        """Note that a member has acquired records."""
        self.name, self._silent_since = member, None

    def failed(self, member: str) -> None:
        """Note that a member has left, or has let a lock expire."""
        if self.name == member:
            self.name = None

    @property
    def is_idle(self) -> bool:
        """Whether the active member has been silent since a call of `is_silent`, for less than its patience."""
        return self._silent_since is not None

    def is_silent(self, *, is_idle: bool, now: int, patience_ms: int) -> bool:
        """
        Replace the active member if it has been idle for `patience_ms`, and return whether it was replaced.

        It is idle while it holds no record and has no waiting fetch, although records are available.  Call this
        regularly; `now` is monotonic time in ms.
        """
        if self.name is None or not is_idle:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        elif now - self._silent_since >= patience_ms:
            self.name = self._silent_since = None
            return True
        return False
