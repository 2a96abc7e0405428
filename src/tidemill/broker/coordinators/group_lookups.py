"""Finds clients that look up a group's coordinator but cannot use the group, because its protocol is not implemented.

librdkafka's consumers with `group.protocol=consumer` (KIP-848) and its share consumers (KIP-932) look up the
coordinator three to five times within a second, see that it does not offer their heartbeat API, and then wait without
an error.  A classic consumer looks it up twice; if it joins a group, it then sends group requests to the coordinator.

    coordinator     counted                                   no longer counted
    this broker     all lookups of the group                  at a group request for the group
    another broker  the lookups of the group per connection   if a coordinator was elected after the first lookup

A consumer that assigns partitions to itself also looks up the coordinator, more than twice if the internal topic is
being created at the time.  Such a consumer is not logged, because it then either uses its connection for other requests
or closes it.
"""

from collections.abc import Callable
from typing import Final, Protocol

from tidemill.broker.rate_limited_events import RateLimitedEvents
from tidemill.model.clock import Clock
from tidemill.telemetry.event_log import EventLog

LOOKUPS_MIN: Final = 3
# Applies if another broker is the coordinator.  It is higher than LOOKUPS_MIN, because this broker does not see the
# group requests that would show that the client can use the group.
LOOKUPS_ELSEWHERE_MIN: Final = 4
WAIT_MS: Final = 10_000  # a classic member sends its first group request well within this time
SILENT_S: Final = 2.0  # a connection is silent if its last bytes came at most this long after its last lookup
WATCHED_MAX: Final = 256  # bounds the memory
CLIENT_IDS_MAX: Final = 256  # the most recently logged client ids that are remembered

PROBLEM: Final = (
    "the client looked up the coordinator and sent no group request; the consumer protocol of KIP-848 "
    "(ConsumerGroupHeartbeat) and share groups (ShareGroupHeartbeat) are not built"
)
FIX: Final = "set group.protocol=classic in the consumer; use a consumer group instead of a share group"


class LookingConnection(Protocol):
    """The part of a client's connection that `GroupLookups` uses."""

    @property
    def peer(self) -> tuple[str, int]: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def active_at(self) -> float: ...


class _Watched:
    """The lookups of one group; the client id and connection are those of the last lookup."""

    __slots__ = (
        "active_at",
        "client_id",
        "connection",
        "count",
        "count_min",
        "group_id",
        "leader",
        "leader_then",
        "since_ms",
    )

    def __init__(self, group_id: str, count_min: int, since_ms: int, leader: Callable[[], object]) -> None:
        self.group_id = group_id
        self.count_min = count_min
        self.since_ms = since_ms
        self.leader = leader
        self.leader_then = leader()
        self.count = 0
        self.client_id = ""
        self.connection: LookingConnection | None = None
        self.active_at = 0.0  # `connection.active_at` at the last lookup

    @property
    def is_waiting(self) -> bool:
        """Whether the client is still waiting for a coordinator that serves it."""
        connection = self.connection
        return (
            self.count >= self.count_min
            and connection is not None
            and connection.is_open
            and connection.active_at - self.active_at <= SILENT_S
            and self.leader() == self.leader_then
        )


class GroupLookups:
    def __init__(self, clock: Clock, events: EventLog) -> None:
        self._clock = clock
        self._events = events
        self._rate = RateLimitedEvents(clock)
        self._watched: dict[str | tuple[str, tuple[str, int]], _Watched] = {}  # oldest first
        self._logged: dict[str, None] = {}  # client ids, oldest first

    def looked_up(
        self,
        group_id: str,
        client_id: str,
        connection: LookingConnection,
        *,
        is_here: bool,
        leader: Callable[[], object],
    ) -> None:
        """
        Count a lookup.  `is_here` says whether this broker is the coordinator; `leader` returns the current leader.
        """
        key = group_id if is_here else (group_id, connection.peer)
        watched = self._watched.get(key)
        if watched is None:
            if len(self._watched) >= WATCHED_MAX:
                del self._watched[next(iter(self._watched))]
            count_min = LOOKUPS_MIN if is_here else LOOKUPS_ELSEWHERE_MIN
            watched = self._watched[key] = _Watched(group_id, count_min, self._clock.monotonic_ms(), leader)
        watched.count += 1
        watched.client_id = client_id
        watched.connection = connection
        watched.active_at = connection.active_at

    def used(self, group_id: str) -> None:
        """Forget the lookups of a group for which a group request has arrived."""
        self._watched.pop(group_id, None)

    def tick(self) -> None:
        """
        Log the clients that are still waiting for a usable coordinator `WAIT_MS` after the first lookup, but each
        client id only once.
        """
        due_ms = self._clock.monotonic_ms() - WAIT_MS
        while self._watched:
            key, watched = next(iter(self._watched.items()))
            if watched.since_ms > due_ms:
                return
            del self._watched[key]
            if watched.is_waiting:
                self._log(watched)

    def _log(self, watched: _Watched) -> None:
        client_id, connection = watched.client_id, watched.connection
        assert connection is not None, "a watched group has been looked up"
        if client_id in self._logged or not self._rate.may_log():
            return
        self._logged[client_id] = None
        if len(self._logged) > CLIENT_IDS_MAX:
            del self._logged[next(iter(self._logged))]
        self._events.warning(
            "consumer does not join its group",
            client_id=client_id,
            client=connection.peer[0],
            group=watched.group_id,
            lookups=watched.count,
            problem=PROBLEM,
            fix=FIX,
        )
