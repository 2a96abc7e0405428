"""Cancels and moves records that wait, by requests to the leaders of their partitions."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.fault.timers.delayed_records import BY_REQUEST, DelayedRecords, Plan
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.failures import RetriesExhausted
from tidemill.client.timer_choice import CANCELLED, TimerChoice, due_at
from tidemill.client.timer_client import TimerClient

SLOT_MS = 500  # changes of so long a time are one request for each plan
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


@dataclass(slots=True)
class _Lot:
    at_ms: int
    records: list[int] = field(default_factory=list)


class TimerChanges(threading.Thread):
    """Sends the requests of a run about one partition, so that no other partition's leader delays them."""

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
            for lot in self._lots():
                time.sleep(max(0.0, lot.at_ms / 1_000 - time.time()))
                self._decide(*tries, lot.records)
        except BaseException as error:
            self.error = error
            raise
        finally:
            cluster.close()

    def _lots(self) -> Iterator[_Lot]:
        """Return the records of each request, in the order of the times at which they are sent."""
        records, lots = self._records, dict[tuple[int, int], _Lot]()
        for number in records.changes(BY_REQUEST):
            if records.partition(number) == self._partition:
                at_ms = records.change_ms[number] // SLOT_MS * SLOT_MS
                lots.setdefault((at_ms, records.plans[number]), _Lot(at_ms)).records.append(number)
        return iter(lots.values())

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
