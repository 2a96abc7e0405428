"""RemovalWatch: notices that the cluster has removed this broker, or given its id to another directory, while it runs.

    heartbeat: the receiver is a stranger ─▶ Join, with directory and id ─▶ the controller ─┬─▶ refused: `problem`
                                                ▲                                           ├─▶ known: the peer lags
                                                └── after 5 s ◀── no controller answers ◀───┘

Only a broker that is not heard can be removed, such as one whose network is cut.  When it is back, no metadata reaches
it any more.  It would serve what it knows to clients for ever.
"""

from collections.abc import Callable
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.peers.unanswered import Unanswered
from tidemill.model import errors
from tidemill.peer import join

ASK_MS: Final = 5_000
REMOVED: Final = frozenset({errors.BROKER_ID_NOT_REGISTERED, errors.DUPLICATE_BROKER_REGISTRATION})


class RemovalWatch:
    def __init__(self, machine: Machine, cluster: Cluster, *, is_ready: Callable[[], bool]) -> None:
        """`is_ready` returns whether this broker is registered: before that, its start asks the cluster itself."""
        self.problem: str | None = None  # why this broker must stop; the process ends if it is set
        self._machine = machine
        self._cluster = cluster
        self._is_ready = is_ready
        self._asked_ms: int | None = None  # time of the last Join
        self._asked = 0  # how often

    def tick(self) -> None:
        """Ask the controller, through a peer that does not know this broker, whether this broker is removed."""
        if self.problem is not None or not self._is_ready():
            return
        estranged, now_ms = self._cluster.peers.estranged(), self._machine.clock.monotonic_ms()
        if not estranged or (self._asked_ms is not None and now_ms - self._asked_ms < ASK_MS):
            return
        self._asked_ms, self._asked = now_ms, self._asked + 1
        me = self._cluster.me
        request = join.Request(
            directory_id=me.directory_id,
            broker_id=me.broker_id,
            was_admitted=True,
            level=self._cluster.newest_level,
        )
        # In turn, because one of them may have no contact to the controller.
        peer = estranged[self._asked % len(estranged)]
        self._cluster.peers.ask(peer, join.API, request, self._answered)

    def _answered(self, outcome: join.Response | Unanswered) -> None:
        if isinstance(outcome, Unanswered) or outcome.error_code not in REMOVED or self.problem is not None:
            return
        self.problem = f"the cluster has removed this broker while it ran: {outcome.error_message}"
        self._machine.events.error("removed from the cluster", problem=self.problem, then="the broker stops")
