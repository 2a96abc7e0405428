"""
A simulated cluster whose shards run an additional state machine: leaders append its commands while faults strike and
clients send requests.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final, NamedTuple

from tidemill.raft.entry import Entry
from tidemill.shard.shard import Shard
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import TOPIC, ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.machine import seconds
from tidemill.storage.journal.shard_log import ShardLog
from tidemill.storage.machine.shard_machine import MachineType
from tidemill.storage.partition.partition_log import PartitionLog

PAUSE_S: Final = 0.05
Observer = Callable[[PartitionLog, int, object], None]  # (partition, log index of a command, state after the command)


class MachineUnderTest(NamedTuple):
    """A state machine, random commands for it, and its state."""

    type_for: Callable[[Observer], MachineType]  # the observer is called for each committed command
    command: Callable[[Random, int, int], Entry]  # returns a command for a partition, with an append time
    state_of: Callable[[ShardLog, int], object]  # returns the state of a partition


class MachineRun(ClusterRun):
    """
    Checks that replicas that have committed the same log index have the same state, and that all replicas have the same
    state at the end of the run.
    """

    def __init__(self, seed: int, knobs: ClusterKnobs, machine: MachineUnderTest) -> None:
        self._machine_under_test = machine
        self._states: dict[tuple[bytes, int, int], object] = {}  # topic, partition, log index → state
        self._values = Random(seed)
        super().__init__(seed, knobs, (machine.type_for(self._committed),))
        self.compared = 0
        agree = self.check.agree
        self.check.agree = partial(self._agree, agree)  # type: ignore[method-assign]
        self.timeline.after(seconds(PAUSE_S), self._add)

    @property
    def committed(self) -> int:
        return len(self._states)

    def _add(self) -> None:
        """Make each leader of a shard of the topic append a command.  Repeat this until the faults are over."""
        if self.timeline.now_us > seconds(self.knobs.duration_s + 5):
            return
        for machine in self.machines:
            if machine.loop is not None and machine.broker is not None:
                for shard in machine.broker.shard_table.shards.values():
                    if shard.topic == TOPIC:
                        random = Random(self._values.randrange(1 << 32))
                        machine.loop.after(0, partial(self._propose, shard, random))
        self.timeline.after(seconds(PAUSE_S), self._add)

    def _propose(self, shard: Shard, random: Random) -> None:
        if shard.accepts_writes:
            number = random.choice([*shard.partitions])
            shard.propose(self._machine_under_test.command(random, number, shard.append_time(0)))

    def _committed(self, log: PartitionLog, index: int, state: object) -> None:
        first = self._states.setdefault((log.topic_id, log.partition, index), state)
        if first != state:
            raise InvariantViolation(
                f"{log.directory}: the state at entry {index} is {state} here, and {first} elsewhere"
            )

    def _agree(self, agree: Callable[[], bool]) -> bool:
        if not agree() or not all(map(_is_quiet, self.machines)):
            return False
        found: dict[tuple[bytes, int], object] = {}
        for machine in self.machines:
            assert machine.broker is not None, f"{machine.name} is ready"
            for shard in machine.broker.shard_table.shards.values():
                for number in shard.partitions:
                    place = shard.log.descriptor.topic_id, number
                    here = self._machine_under_test.state_of(shard.log, number)
                    first = found.setdefault(place, here)
                    self.compared += shard.topic == TOPIC
                    if first != here:
                        raise InvariantViolation(
                            f"{shard.topic}-{number}: the state is {here} on {machine.name}, not {first}"
                        )
        return True


def _is_quiet(machine: BrokerMachine) -> bool:
    """Return whether the machine's replicas have committed every entry that they have."""
    assert machine.broker is not None, "all brokers agree"
    return all(it.replica.stable_index == it.replica.last_index for it in machine.broker.shard_table.shards.values())


def machine_run(seed: int, brokers: int, machine: MachineUnderTest, tail_entries: int | None = None) -> MachineRun:
    knobs = ClusterKnobs.draw(Random(seed), brokers)
    if tail_entries is not None:
        knobs = replace(knobs, options=replace(knobs.options, tail_entries=tail_entries))
    return MachineRun(seed, knobs, machine)
