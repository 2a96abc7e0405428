"""AwaitedTransfers: leaderships that the controller wants elsewhere, asked for again until the target leads.

    begin ─▶ asked ─ 2 s ─▶ asked ─ 4 s ─▶ asked ─ 8 s ─▶ …    until the target leads
                                                               ├─ it cannot: it does not vote, or the shard is gone
                                                               ├─ another transfer or plan of the shard takes its place
                                                               └─ its time is over, or this broker is not the controller

A leader refuses a transfer if the target is down, drained or behind, and one that has begun may fail.  Either passes.
The pauses grow, because a shard takes no records while a transfer is tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tidemill.broker.leadership.leadership_transfers import Move
from tidemill.broker.repeated_events import RepeatedEvents
from tidemill.metadata.image import ClusterImage, Shard
from tidemill.metadata.leadership import preferred_leader
from tidemill.metadata.partition_reassignments import Voters
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.model.clock import Clock
from tidemill.model.shard import ShardId
from tidemill.telemetry.event_log import EventLog

PAUSE_MS: Final = 2_000  # after the first attempt, which ends within `TRANSFER_MS`; doubled each time
PLANNED_MS: Final = 60_000  # afterwards, the balance of preferred leaders carries out what was planned


class Failure(NamedTuple):
    """Why a broker does not lead a shard."""

    why: str
    is_refused: bool = False  # waiting longer would not help


Ended = Callable[[Failure | None], None]  # None: the target leads


class ClusterLeaders(Protocol):
    """The part of `Cluster` that this module uses."""

    @property
    def watchers(self) -> dict[Callable[[], None], None]:
        """Functions to call when the image or a leader has changed."""
        ...

    def reported_leader(self, shard_id: ShardId) -> BrokerId | None: ...
    def is_up(self, broker_id: BrokerId) -> bool: ...
    def eligible_leaders(self) -> frozenset[BrokerId]: ...
    def in_sync(self, planned: Shard) -> list[BrokerId]: ...


@dataclass(slots=True)
class _Awaited:
    to: BrokerId
    is_planned: bool  # by the planner: the target is to be the preferred leader
    until_ms: int
    next_ms: int  # when to ask again
    ended: Ended
    asked: int = 0  # how often


class AwaitedTransfers:
    def __init__(
        self,
        cluster: ClusterLeaders,
        clock: Clock,
        events: EventLog,
        *,
        ask: Callable[[Sequence[Move]], None],
        voters: Voters,
        image: Callable[[], ClusterImage],
        leads: Callable[[], bool],
    ) -> None:
        """`ask` begins transfers wherever shards are led; `leads` returns whether this broker is the controller."""
        self._cluster = cluster
        self._ask = ask
        self._voters = voters
        self._image = image
        self._leads = leads
        self._clock = clock
        self._events = events
        self._repeated = RepeatedEvents(clock)
        self._awaited: dict[ShardId, _Awaited] = {}

    def plan(self, moves: Sequence[Move]) -> None:
        """Begin transfers to the preferred leaders that the planner has chosen, and log those that do not happen."""
        for shard_id, to in moves:
            self._begin(shard_id, to, PLANNED_MS, self._logged(shard_id, to), is_planned=True)
        self.tick()

    def begin(self, shard_id: ShardId, to: BrokerId, within_ms: int, ended: Ended) -> None:
        """Begin a transfer, and call `ended` once: when `to` leads, cannot lead, or does not after `within_ms`."""
        self._begin(shard_id, to, within_ms, ended, is_planned=False)
        self.tick()

    def waiting(self) -> Iterator[tuple[ShardId, str]]:
        """Yield each shard whose transfer has been asked for more than once, and why it does not happen."""
        for shard_id, awaited in self._awaited.items():
            if awaited.asked > 1:
                yield shard_id, self._obstacle(shard_id, awaited)

    def tick(self) -> None:
        """Ask for the transfers that are due, and end those that are over.  Called a few times a second."""
        now_ms, due = self._clock.monotonic_ms(), []
        self._check()
        for shard_id, awaited in [*self._awaited.items()]:
            if now_ms >= awaited.until_ms:
                self._end(shard_id, awaited, Failure(self._obstacle(shard_id, awaited)))
            elif now_ms >= awaited.next_ms:
                awaited.next_ms = now_ms + (PAUSE_MS << awaited.asked)
                awaited.asked += 1
                due.append((shard_id, awaited.to))
        if due:
            self._ask(due)

    def _begin(self, shard_id: ShardId, to: BrokerId, within_ms: int, ended: Ended, *, is_planned: bool) -> None:
        before = self._awaited.get(shard_id)
        if before is not None:
            self._end(shard_id, before, Failure(f"a later transfer has broker {to} lead shard {shard_id}", True))
        now_ms = self._clock.monotonic_ms()
        self._awaited[shard_id] = _Awaited(to, is_planned, now_ms + within_ms, now_ms, ended)
        self._cluster.watchers[self._check] = None

    def _check(self) -> None:
        """End the transfers whose target leads, or never will."""
        for shard_id, awaited in [*self._awaited.items()]:
            failure = self._failure(shard_id, awaited)
            if failure is not None or self._cluster.reported_leader(shard_id) == awaited.to:
                self._end(shard_id, awaited, failure)

    def _end(self, shard_id: ShardId, awaited: _Awaited, failure: Failure | None) -> None:
        if self._awaited.get(shard_id) is not awaited:
            return  # ended meanwhile: each end may begin or end others
        del self._awaited[shard_id]
        if not self._awaited:
            self._cluster.watchers.pop(self._check, None)
        awaited.ended(failure)

    def _failure(self, shard_id: ShardId, awaited: _Awaited) -> Failure | None:
        """Return why the target never will lead the shard; None if it may."""
        shard, to = self._image().shards.get(shard_id), awaited.to
        if not self._leads():
            return Failure("the controller has changed; look which broker leads, and ask again")
        if shard is None:
            return Failure(f"there is no shard {shard_id}; a deleted topic may have had it", is_refused=True)
        if awaited.is_planned and preferred_leader(shard) != to:
            why = f"a later plan has broker {preferred_leader(shard)} lead shard {shard_id}"
            return Failure(why, is_refused=True)
        # A replica that is planned may have begun to vote since its leader has told the voters.
        members = {it.broker_id for it in (*shard.replicas, *(self._voters(shard_id) or ()))}
        if to not in members:
            return Failure(f"broker {to} has no replica of shard {shard_id}", is_refused=True)
        return None

    def _obstacle(self, shard_id: ShardId, awaited: _Awaited) -> str:
        """Return what is in the way of a transfer, as far as this broker knows; it may pass."""
        cluster, to = self._cluster, awaited.to
        shard, leader = self._image().shards[shard_id], cluster.reported_leader(shard_id)
        if leader is None:
            return f"shard {shard_id} has no leader now"
        if not cluster.is_up(to):
            return f"broker {to} is down"
        if to not in cluster.eligible_leaders():
            return f"broker {to} is drained, or not ready to lead"
        if to in broker_ids(shard.replicas) and to not in cluster.in_sync(shard):
            return f"the replica of shard {shard_id} on broker {to} is not in sync"
        times = "once" if awaited.asked == 1 else f"{awaited.asked} times"
        return f"broker {leader} leads shard {shard_id}, and was asked {times} to let broker {to} lead"

    def _logged(self, shard_id: ShardId, to: BrokerId) -> Ended:
        def ended(failure: Failure | None) -> None:
            if failure is not None and self._repeated.occurred(shard_id) is not None:
                self._events.warning("leadership not transferred", shard=shard_id, to=to, why=failure.why)

        return ended
