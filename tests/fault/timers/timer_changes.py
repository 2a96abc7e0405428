"""Cancels and moves records that wait, by requests to the leaders of their partitions."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fault.timers.delayed_records import BY_REQUEST, DelayedRecords, Plan
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.failures import RetriesExhausted
from tidemill.client.timer_choice import CANCELLED, TimerChoice, due_at
from tidemill.client.timer_client import TimerClient

PACE_S = 0.5  # at least, between two requests of one plan
LOT_MAX = 5_000  # records of one request
ANSWERED_MS_MAX = 60_000
ONE_TRY_MS = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """One request about records of one partition, and its answer."""

    records: Sequence[int]
    due_ms: int | None  # their new time; None: they are cancelled
    changed: int
    over: int
    is_first: bool  # whether the first attempt was answered: otherwise an earlier one may have had an effect
    answered_ms: int


class TimerChanges(threading.Thread):
    """
    Sends the requests of a run about one partition, so that no other partition's leader delays them.

    A request names all records whose time has come.  So what a slow answer, or a failover, has delayed follows in one
    request, and later changes are in time.
    """

    def __init__(self, bootstrap: str, topic: str, partition: int, records: DelayedRecords) -> None:
        super().__init__(name=f"changes of {topic}-{partition}", daemon=True)
        self._brokers = bootstrap
        self._topic = topic
        self._partition = partition
        self._records = records
        self.decisions: list[Decision] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        cluster = cluster_of(self._brokers)
        tries = TimerClient(cluster, deadline_ms=ONE_TRY_MS), TimerClient(cluster, deadline_ms=ANSWERED_MS_MAX)
        try:
            left = [self._of_plan(plan) for plan in BY_REQUEST]
            while any(left):
                next_at = time.monotonic() + PACE_S
                for waiting in left:
                    lot = self._lot(waiting)
                    if lot:
                        self._decide(*tries, lot)
                time.sleep(max(0.0, next_at - time.monotonic()))
        except BaseException as error:
            self.error = error
            raise
        finally:
            cluster.close()

    def _of_plan(self, plan: Plan) -> deque[int]:
        """Return the records of the partition with this plan, in the order of the times of their changes."""
        records = self._records
        return deque(it for it in records.changes((plan,)) if records.partition(it) == self._partition)

    def _lot(self, waiting: deque[int]) -> list[int]:
        """Remove the records whose time has come, and return them."""
        now_ms, lot = time.time() * 1_000, list[int]()
        while waiting and len(lot) < LOT_MAX and self._records.change_ms[waiting[0]] <= now_ms:
            lot.append(waiting.popleft())
        return lot

    def _decide(self, once: TimerClient, patiently: TimerClient, chosen: Sequence[int]) -> None:
        records = self._records
        due_ms = records.new_due_ms[chosen[0]] if records.plans[chosen[0]] == Plan.MOVE else None
        change = CANCELLED if due_ms is None else due_at(due_ms)
        arrivals = [(self._partition, records.arrivals[it]) for it in chosen]
        choice = TimerChoice(partition=self._partition, arrivals=arrivals)
        is_first = True
        try:
            outcome = once.resolve(self._topic, choice, change)
        except RetriesExhausted:
            is_first = False
            outcome = patiently.resolve(self._topic, choice, change)
        assert outcome.unknown == 0, outcome
        now_ms = time.time_ns() // 1_000_000
        self.decisions.append(Decision(chosen, due_ms, outcome.changed, outcome.over, is_first, now_ms))


def cluster_of(bootstrap: str) -> ClusterMetadata:
    keys = {
        "bootstrap.servers": bootstrap,
        "request.timeout.ms": "5000",
        "socket.connection.setup.timeout.ms": "5000",
        "default.api.timeout.ms": f"{ANSWERED_MS_MAX}",
    }
    return ClusterMetadata(from_keys(keys))


def waiting(bootstrap: str, topic: str) -> int:
    """Return how many records wait in a topic."""
    cluster = cluster_of(bootstrap)
    try:
        return sum(it.waiting for it in TimerClient(cluster).stats(topic))
    finally:
        cluster.close()
