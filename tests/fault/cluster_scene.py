"""Runs a steady load on one topic while faults strike its cluster.

A scene finds the leaders, measures how long writes pause, and finally checks all invariants, both by reading with
clients and by comparing the brokers' disks.
"""

import time
from collections.abc import Callable, Collection, Sequence
from types import MappingProxyType, TracebackType

from tests.fault.cluster_processes import ClusterProcesses
from tests.fault.history import summary, violations
from tests.fault.pauses import pause_of_shards, table
from tests.fault.steady_load import Keys, SteadyLoad

PARTITIONS = 6
SHARDS = (range(2), range(2, 4), range(4, 6))  # the partitions of each shard; a topic has at least one shard per broker
CALM_SECONDS = 0.3
BROKEN_MAX = 20  # violations to report at most


class ClusterScene:
    """A context manager that runs the load between entry and exit."""

    def __init__(
        self,
        cluster: ClusterProcesses,
        topic: str,
        *,
        keys: Keys = MappingProxyType({}),
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """
        `assignment` has the replicas of each partition, which are equal within each of `SHARDS`.  Partitions beyond
        those get no load.
        """
        self.cluster = cluster
        self.topic = topic
        self._faults: list[tuple[str, Collection[range], float, float]] = []
        cluster.create_topic(topic, PARTITIONS, assignment=assignment)
        self.load = SteadyLoad(cluster.bootstrap, topic, PARTITIONS, keys=keys)

    def __enter__(self) -> "ClusterScene":
        self.load.__enter__()
        self.load.wait_for_progress()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.load.__exit__(kind, error, trace)

    def leader(self, shard: int) -> int:
        return self.cluster.leaders(self.topic)[SHARDS[shard].start]

    def strike(self, fault: str, victim: int, begin: Callable[[], object]) -> int:
        """
        Apply a fault that prevents the victim from leading.  Wait until other brokers lead and every partition
        accepts writes again.  Record the fault for each shard that the victim led, so that `finish` can measure the
        pauses, and return the number of these shards.
        """
        leaders = self.cluster.leaders(self.topic)
        hit = [shard for shard in SHARDS if leaders[shard.start] == victim]
        since = time.monotonic()
        begin()
        self.cluster.leaders(self.topic, but=[victim])
        until = self.load.wait_for_progress()
        self._faults.append((fault, hit, since, until))
        return len(hit)

    def strike_all(self, fault: str, begin: Callable[[], object]) -> None:
        """Apply a fault that may stop any write.  `begin` must cause the fault and return when it is over."""
        since = time.monotonic()
        begin()
        self._faults.append((fault, SHARDS, since, self.load.wait_for_progress()))

    def calm(self) -> None:
        """Wait until every broker is in sync and every partition is being written."""
        self.cluster.wait_until_in_sync(self.topic)
        self.load.wait_for_progress()
        self.load.run_for(CALM_SECONDS)

    def finish(self) -> "Verdict":
        history = self.load.finish()
        pauses: dict[str, list[float]] = {}
        for fault, hit, since, until in self._faults:
            found = pause_of_shards(self.load.acknowledged_at, hit, since, until)
            pauses.setdefault(fault, []).extend(found)
        broken = [*self.load.truncated, *map(str, violations(history))]
        return Verdict(pauses, broken[:BROKEN_MAX], summary(history))

    def wait_until_equal(self) -> None:
        self.cluster.wait_until_equal(self.topic)


class Verdict:
    def __init__(self, pauses: dict[str, list[float]], broken: list[str], seen: str) -> None:
        self.pauses = pauses
        self.broken = broken  # a message for each violation of an invariant
        self._seen = seen

    def __str__(self) -> str:
        return f"\n{self._seen}\n{table(self.pauses)}" if self.pauses else f"\n{self._seen}"
