"""One run: records are produced, wait and are delivered, while some are cancelled and moved, and faults strike."""

import time
from itertools import islice
from types import TracebackType

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.timers.delayed_records import DelayedRecords
from tests.fault.timers.deliveries import Deliveries
from tests.fault.timers.outcomes import Outcomes
from tests.fault.timers.served_times import TimerProbe
from tests.fault.timers.timer_changes import TimerChanges, waiting
from tests.fault.timers.timer_producer import TimerProducer

PARTITIONS = 6
PRODUCED_S_MAX = 300.0
RELEASED_S_MAX = 300.0  # from the last due time until nothing waits
REST_S = 1.0  # after the last delivery; a second one would come meanwhile
VIOLATIONS_MAX = 20  # to report


class TimerRun:
    """A context manager; on entry, the records are produced."""

    def __init__(
        self, cluster: ClusterProcesses, topic: str, *, seed: int, count: int, lead_s: float, window_s: float,
        are_changed: bool,
    ) -> None:  # fmt: skip
        """The records are due at random within `window_s`, which begins `lead_s` after now."""
        self._cluster = cluster
        self._topic = topic
        cluster.create_topic(topic, PARTITIONS, **{"tidemill.kind": "timer"})
        begin_ms = int((time.time() + lead_s) * 1_000)
        self.end_ms = begin_ms + int(window_s * 1_000)
        self.records = DelayedRecords(seed, count, PARTITIONS, begin_ms, self.end_ms, are_changed=are_changed)
        self._deliveries = Deliveries(cluster.bootstrap, topic, PARTITIONS)
        self._producer = TimerProducer(cluster.bootstrap, topic, self.records)
        self._probe = TimerProbe(cluster.bootstrap, topic, PARTITIONS)
        self._changes = [
            TimerChanges(cluster.bootstrap, topic, partition, self.records) for partition in range(PARTITIONS)
        ]

    def __enter__(self) -> "TimerRun":
        self._deliveries.start()
        self._producer.start()
        assert self._producer.has_produced.wait(PRODUCED_S_MAX), "not all records were acknowledged"
        self._check_threads()
        self._probe.start()
        for changes in self._changes:
            changes.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._probe.stop()
        self._deliveries.stop()

    @property
    def is_over(self) -> bool:
        """Whether the last record is due."""
        self._check_threads()
        return time.time() * 1_000 > self.end_ms

    def finish(self) -> Outcomes:
        """Wait until nothing waits any more, and all that was released is read."""
        for thread in (self._producer, *self._changes):
            thread.join(PRODUCED_S_MAX)
            assert not thread.is_alive(), f"{thread.name} has not ended"
        self._check_threads()

        def is_released() -> bool:
            self._check_threads()
            return waiting(self._cluster.bootstrap, self._topic) == 0

        wait_until(is_released, "the release of all records", seconds_max=RELEASED_S_MAX)
        self._wait_until_read()
        time.sleep(REST_S)
        self._wait_until_read()
        self.__exit__(None, None, None)
        self._check_threads()
        decisions = [decision for changes in self._changes for decision in changes.decisions]
        return Outcomes(self.records, decisions, self._deliveries, self._probe.finish())

    def _wait_until_read(self) -> None:
        released = sum(self._cluster.end_offsets(self._topic).values())
        wait_until(lambda: len(self._deliveries) >= released, f"the reading of {released} records")
        assert len(self._deliveries) == released

    def _check_threads(self) -> None:
        threads = self._deliveries, self._producer, self._probe, *self._changes
        assert [] == [it.error for it in threads if it.error is not None]
        assert [] == self._producer.failures[:VIOLATIONS_MAX]


def show(outcomes: Outcomes, capsys: pytest.CaptureFixture[str], heading: str) -> None:
    """Print what has become of the records, and assert that no promise was broken."""
    with capsys.disabled():
        print(f"\n{heading}{outcomes.summary()}")
    assert [] == [*islice(outcomes.violations(), VIOLATIONS_MAX)]
