"""
A simulated cluster whose shards run the toy state machine: leaders append values while faults strike and clients send
requests.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from tests.simulation.summing_machine import add_command, summed_of, summing
from tidemill.shard.shard import Shard
from tidemill.simulation.cluster.cluster import TOPIC, ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.machine import seconds
from tidemill.storage.partition.partition_log import PartitionLog

PAUSE_S: Final = 0.05


class SummingRun(ClusterRun):
    """
    Checks that replicas that have committed the same log index have the same sum of the appended values, and that all
    replicas have the same sum at the end of the run.
    """

    def __init__(self, seed: int, knobs: ClusterKnobs) -> None:
        self._sums: dict[tuple[bytes, int, int], int] = {}  # topic, partition, log index → sum
        self._values = Random(seed)
        super().__init__(seed, knobs, (summing(self._committed),))
        self.compared = 0
        agree = self.check.agree
        self.check.agree = partial(self._agree, agree)  # type: ignore[method-assign]
        self.timeline.after(seconds(PAUSE_S), self._add)

    @property
    def committed(self) -> int:
        return len(self._sums)

    def _add(self) -> None:
        """Make each leader of a shard of the topic append a value.  Repeat this until the faults are over."""
        if self.timeline.now_us > seconds(self.knobs.duration_s + 5):
            return
        for machine in self.machines:
            if machine.loop is not None and machine.broker is not None:
                for shard in machine.broker.shard_table.shards.values():
                    if shard.topic == TOPIC:
                        value = self._values.randint(1, 1_000)
                        machine.loop.after(0, partial(self._propose, shard, value))
        self.timeline.after(seconds(PAUSE_S), self._add)

    def _propose(self, shard: Shard, value: int) -> None:
        if shard.accepts_writes:
            number = self._values.choice([*shard.partitions])
            shard.propose(add_command(number, value, shard.append_time(0)))

    def _committed(self, log: PartitionLog, index: int, total: int) -> None:
        first = self._sums.setdefault((log.topic_id, log.partition, index), total)
        if first != total:
            raise InvariantViolation(
                f"{log.directory}: the sum at entry {index} is {total} here, and {first} elsewhere"
            )

    def _agree(self, agree: Callable[[], bool]) -> bool:
        if not agree():
            return False
        found: dict[tuple[bytes, int], tuple[int, int]] = {}
        for machine in self.machines:
            assert machine.broker is not None, f"{machine.name} is ready"
            for shard in machine.broker.shard_table.shards.values():
                for number in shard.partitions:
                    place = shard.log.descriptor.topic_id, number
                    here = summed_of(shard.log, number).with_pending
                    first = found.setdefault(place, here)
                    self.compared += shard.topic == TOPIC
                    if first != here:
                        raise InvariantViolation(
                            f"{shard.topic}-{number}: sum and count are {here} on {machine.name}, not {first}"
                        )
        return True


def summing_run(seed: int, brokers: int, tail_entries: int | None = None) -> SummingRun:
    knobs = ClusterKnobs.draw(Random(seed), brokers)
    if tail_entries is not None:
        knobs = replace(knobs, options=replace(knobs.options, tail_entries=tail_entries))
    return SummingRun(seed, knobs)
