"""A simulated cluster whose shards move to other brokers, again and again, under all faults."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final
from unittest.mock import patch

from tests.simulation.cluster.brief_knobs import brief
from tidemill.broker.broker import Broker
from tidemill.broker.maintenance import replica_releases
from tidemill.metadata.image import Shard
from tidemill.metadata.reassignments import Move, PlanMoves, PlannedMoves
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import TOPIC, ClusterRun
from tidemill.simulation.cluster.cluster_faults import ClusterFaults
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.cluster.replica_check import ReplicaCheck
from tidemill.simulation.machine.machine import seconds

ASK_MS: Final = 300
MOVE_S: Final = 1.0  # the mean time between two plans
BRIEF_S: Final = 5
BRIEF_MOVE_S: Final = 0.7  # likewise, in a brief run
BRIEF_BROKERS: Final = (3, 4, 3, 4, 5)
CANCEL_S: Final = 0.3  # the mean time until a plan that is withdrawn soon
CANCELLED: Final = 0.3  # of plans are withdrawn
REPLICAS: Final = (1, 2, 3, 3, 3)


class MovingRun(ClusterRun):
    """Also counts what has happened to replicas: `happened`."""

    def __init__(self, seed: int, knobs: ClusterKnobs, move_s: float = MOVE_S) -> None:
        """`move_s` is the mean time between two plans."""
        super().__init__(seed, knobs)
        self.happened: Counter[str] = Counter()
        self._move_s = move_s
        self._moves = Random(seed)
        self._former: tuple[Shard, list[BrokerId]] | None = None  # what the last plan has replaced
        self._closed: dict[str, set[ShardId]] = {}  # by broker
        self._ticks: dict[str, int] = {}  # of each broker, when that was looked at
        self._asked: dict[ShardId, tuple[BrokerId, ...]] = {}  # the newest plan, which may not be in an image yet
        self.faults = ClusterFaults(
            self.timeline, self.network, self.machines, self.knobs, self._fork(), self._may_lose
        )
        self.replica_check = ReplicaCheck(self.machines)
        for machine in self.machines:
            machine.after_turn = self._after_turn
        self.timeline.after(seconds(move_s), self._plan)

    def _plan(self) -> None:
        """Have the controller plan the replicas of some shard on some brokers.  End with the faults."""
        if self.faults.is_over:
            return
        controllers = [it for it in self.machines if it.broker is not None and it.broker.controller.leads]
        topic = None if not controllers else controllers[-1].broker.image.topic(TOPIC)  # type: ignore[union-attr]
        pause_s = self._moves.expovariate(1 / self._move_s)
        if topic is not None:
            broker, random = controllers[-1].broker, self._moves
            assert broker is not None and controllers[-1].loop is not None, "it is up"
            shard = broker.image.shards[random.choice(topic.shard_ids)]
            registered = [it.broker_id for it in broker.image.registered()]
            brokers = random.sample(registered, min(random.choice(REPLICAS), len(registered)))
            if self._former is not None and random.random() < CANCELLED:
                shard, brokers = self._former
            elif random.random() < CANCELLED:
                pause_s = random.expovariate(1 / CANCEL_S)
            self._former = shard, broker_ids(shard.replicas)
            move = Move(shard_id=shard.shard_id, brokers=tuple(brokers), reason=Reason.USER)
            controllers[-1].loop.after(0, partial(self._submit, broker, move))
        self.timeline.after(seconds(pause_s), self._plan)

    def _submit(self, broker: Broker, move: Move) -> None:
        def planned(outcome: object) -> None:
            if isinstance(outcome, PlannedMoves):  # refused if a named broker is not registered any more
                self.happened["planned" if outcome.problems == (None,) else "refused"] += 1

        if broker.controller.leads and not self._needs_lost_disk(broker, move):
            self._asked[move.shard_id] = move.brokers
            broker.controller.submit(PlanMoves(moves=(move,))).then(planned)

    def _needs_lost_disk(self, broker: Broker, move: Move) -> bool:
        """
        Return whether a disk of the planned replicas is lost.  On the way to one or two replicas, a shard may need all
        its members, and their leader does not know for a while that a disk has been lost.
        """
        needed = {broker.image.brokers[it].voter for it in move.brokers}
        if len(needed) <= 2:
            needed |= {*broker.image.shards[move.shard_id].replicas, *self.check.members(move.shard_id)}
        return not needed <= {machine.voter for machine in self.machines if not machine.is_rotten}

    def _may_lose(self, lost: BrokerMachine) -> bool:
        """
        Return whether each shard outlives the loss of a disk.  One that moves to one or two brokers may need all of
        them before its leader can know of the loss.  On the way to one broker, two members vote, and both are needed.
        """
        broker_id = None if lost.voter is None else lost.voter.broker_id
        needed = any(
            (len(brokers) <= 2 and broker_id in brokers)
            or (len(brokers) == 1 and lost.voter in self.check.members(shard_id))
            for shard_id, brokers in self._asked.items()
        )
        return self.check.may_lose(lost) and not needed

    def _after_turn(self, machine: BrokerMachine) -> None:
        self.check.check_after_turn(machine)
        self.replica_check.check_after_turn(machine)
        if not self.knobs.rot:
            self.replica_check.check_undamaged(machine)
        self._note(machine)

    def _note(self, machine: BrokerMachine) -> None:
        """Count replicas that a broker has closed or opened again since its last tick."""
        broker = machine.broker
        if broker is None or self._ticks.get(machine.name) == machine.ticks:
            return
        self._ticks[machine.name] = machine.ticks
        before, closed = self._closed.get(machine.name, set()), {*broker.store.closed} & broker.image.shards.keys()
        if closed != before:
            self.happened["released"] += len(closed - before)
            self.happened["opened again"] += len(before & broker.shard_table.shards.keys())
            self._closed[machine.name] = closed


@contextmanager
def asking_often() -> Iterator[None]:
    """Let replicas that are not planned any more ask for their release often, so that some come back in a short run."""
    with patch.object(replica_releases, "ASK_MS", ASK_MS):
        yield


def with_moves(knobs: ClusterKnobs) -> ClusterKnobs:
    """Return knobs with which runs last long enough for several moves of a shard."""
    return replace(knobs, duration_s=max(knobs.duration_s, 15))


def moving_run(seed: int, brokers: int = 5) -> MovingRun:
    return MovingRun(seed, with_moves(ClusterKnobs.draw(Random(seed), brokers)))


def brief_moving_run(seed: int) -> MovingRun:
    knobs = ClusterKnobs.draw(Random(seed), BRIEF_BROKERS[seed % len(BRIEF_BROKERS)])
    return MovingRun(seed, brief(knobs, BRIEF_S), BRIEF_MOVE_S)
