"""A simulated cluster that heals itself under all faults: brokers join, die for good, are drained, and come back.

faults, producers, readers ┐
joins, deaths, drains ─────┴─▶ the controller's planner ─▶ moves ─▶ in the end, everything is where it belongs
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from tests.simulation.cluster.brief_knobs import brief
from tidemill.broker.broker import Broker
from tidemill.broker.controller.operator_commands import Answer
from tidemill.metadata.image import ClusterImage
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.config_resolution import NOTHING
from tidemill.model.shard import ShardId
from tidemill.rebalance.plan import Status
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_faults import ClusterFaults
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.links import PEER_PORT
from tidemill.simulation.machine.machine import seconds
from tidemill.storage import paths

DURATION_S: Final = 20
OPERATION_S: Final = 1.5  # the mean time between two operations
BRIEF_S: Final = 6
BRIEF_OPERATION_S: Final = 0.7  # likewise, in a brief run
BRIEF_BROKERS: Final = (4, 4, 5, 4, 6)
HELP_S: Final = 2.0  # how often the operator looks after a stalled plan, at the end
UNDRAIN: Final = ": undrain "  # asks an operator for that, in a refusal
SEEN_S: Final = 2.0  # by then, the controller has made a plan after a record
BROKERS_MAX: Final = 7
BROKERS: Final = (4, 5, 6)
BROKERS_MIN: Final = 4  # three replicas, and one broker that may be drained
DEATHS_MAX: Final = 2
STATIC: Final = {
    "tidemill.rebalance.enable": "true",
    "tidemill.broker.silent.ms": "1000",
    "tidemill.replica.replacement.delay.ms": "2500",
    "tidemill.broker.return.ms": "1000",
    "tidemill.load.report.ms": "500",
}
BRIEF: Final = {"tidemill.replica.replacement.delay.ms": "1000", "tidemill.broker.return.ms": "500"}


class HealingRun(ClusterRun):
    """Also counts what has happened to brokers: `happened`."""

    def __init__(
        self,
        seed: int,
        knobs: ClusterKnobs,
        *,
        operation_s: float | None = OPERATION_S,
        settings: Mapping[str, str] = NOTHING,
    ) -> None:
        """
        `operation_s` is the mean time between two operations; None: there are none.  Every broker is started with
        `settings` in addition to `STATIC`.
        """
        super().__init__(seed, knobs, static={**STATIC, **settings})
        self.happened: Counter[str] = Counter()
        self._operations = Random(seed)
        self._gone: set[BrokerId] = set()  # by the newest image
        self._silent_since_us: dict[BrokerId, int] = {}  # likewise
        self._is_helped = False  # whether the operator has begun to replace brokers
        self._image_offset = 0
        self._released: dict[str, set[ShardId]] = {}
        self._ticks: dict[str, int] = {}  # of each broker, when its released replicas were last counted
        self.faults = ClusterFaults(
            self.timeline, self.network, self.machines, self.knobs, self._fork(), self.check.may_lose
        )
        for machine in self.machines:
            self._watch(machine)
        if operation_s is not None:
            self.timeline.after(seconds(operation_s), partial(self._operate, operation_s))

    def _watch(self, machine: BrokerMachine) -> None:
        check = machine.after_turn

        def watched(it: BrokerMachine) -> None:
            check(it)
            self._note(it)

        machine.after_turn = watched

    # What an operator does.

    def _operate(self, operation_s: float) -> None:
        """Have one broker join, die for good, or be drained.  End with the faults."""
        if self.faults.is_over:
            return
        random = self._operations
        random.choice((self._join, self._die, self._drain, self._drain, self._undrain))()
        pause_s = random.expovariate(1 / operation_s)
        self.timeline.after(seconds(pause_s), partial(self._operate, operation_s))

    def _join(self) -> None:
        if len(self.machines) >= BROKERS_MAX or not any(machine.is_ready for machine in self.machines):
            return
        self.happened["joined"] += 1
        machine = self._machine(1 + len(self.machines) + len(self.check.gone))
        machine._join = tuple(f"{it.name}:{PEER_PORT}" for it in self.machines)
        machine.after_turn = self.check.check_after_turn
        self._watch(machine)
        self.machines.append(machine)
        machine.start()

    def _die(self) -> None:
        """Lose a broker for good, but no two within a moment: a new shard could be placed on both, without a leader."""
        if len(self.machines) <= BROKERS_MIN or len(self.check.gone) >= DEATHS_MAX or self._is_loss_unknown():
            return
        able = [it for it in self.machines if it.voter is not None and self.faults.may_be_destroyed(it)]
        if able:
            self.happened["died"] += 1
            machine = self._operations.choice(able)
            machine.lose_power(ALL_LOST)
            self.machines.remove(machine)
            self.check.gone.append(machine)

    def _is_loss_unknown(self) -> bool:
        """Return whether a broker that was lost for good still counts as live."""
        machine = self._controller()
        image = None if machine is None or machine.broker is None else machine.broker.image
        lost = {it.voter for it in self.check.gone}
        return image is None or any(
            it.voter in lost and it.presence is Presence.ACTIVE for it in image.brokers.values()
        )

    def _drain(self) -> None:
        drain = self._operations.choice((Drain.LEADERS, Drain.ALL))
        self._command(lambda broker, broker_id: broker.operator_commands.drain(broker_id, drain), drain.name.lower())

    def _undrain(self) -> None:
        self._command(lambda broker, broker_id: broker.operator_commands.drain(broker_id, Drain.NONE), "undrained")

    def _command(self, ask: Callable[[Broker, BrokerId], object], what: str) -> None:
        """Ask the controller for something that concerns a random broker."""
        machine = self._controller()
        if machine is None or machine.broker is None or machine.loop is None:
            return
        broker_id = self._operations.choice([*machine.broker.image.brokers])
        machine.loop.after(0, partial(self._ask, machine.broker, ask, broker_id, what))

    def _ask(self, broker: Broker, ask: Callable[[Broker, BrokerId], object], broker_id: BrokerId, what: str) -> None:
        def answered(answer: Answer) -> None:
            problem = answer.problem
            if problem is None:
                self.happened[what] += 1
            elif problem.error_code not in (errors.REQUEST_TIMED_OUT, errors.NOT_CONTROLLER):
                self.happened[f"{what}, refused"] += 1

        if broker.controller.leads:
            ask(broker, broker_id).then(answered)  # type: ignore[attr-defined]

    def _controller(self) -> BrokerMachine | None:
        leading = [it for it in self.machines if it.broker is not None and it.broker.controller.accepts_writes]
        return max(leading, key=lambda it: it.broker.cluster.controller_term, default=None)  # type: ignore[union-attr]

    # What is checked after every turn.

    def _note(self, machine: BrokerMachine) -> None:
        broker = machine.broker
        if broker is None:
            return
        if broker.rebalance.failures:
            raise InvariantViolation(f"planning failed on {machine.name}: {[*machine.lines][-5:]}")
        if broker.image.offset > self._image_offset:
            self._image_offset = broker.image.offset
            self._note_image(broker.image)
        if self._ticks.get(machine.name) == machine.ticks:
            return
        self._ticks[machine.name] = machine.ticks
        closed = {*broker.store.closed} & broker.image.shards.keys()
        if closed != self._released.get(machine.name, set()):
            self.happened["released"] += len(closed - self._released.get(machine.name, set()))
            self._released[machine.name] = closed

    def _note_image(self, image: ClusterImage) -> None:
        """
        Check that no broker becomes GONE by itself while another one has been lost, too, and was not replaced.  One
        that was lost before it had registered its directory carries nothing, and does not count.
        """
        gone = {it.broker_id for it in image.brokers.values() if it.presence is Presence.GONE}
        silent = {it.broker_id for it in image.registered() if it.presence is Presence.SILENT}
        now_us = self.timeline.now_us
        lost = {it.voter.broker_id for it in self.check.gone if it.voter is not None}
        others = {it for it in silent & lost if now_us - self._silent_since_us.get(it, now_us) > seconds(SEEN_S)}
        if gone - self._gone and others and not self._is_helped:
            raise InvariantViolation(f"{gone - self._gone} are GONE although {others} are silent, too: ask an operator")
        self._silent_since_us = {it: self._silent_since_us.get(it, now_us) for it in silent}
        self.happened["gone"] += len(gone - self._gone)
        self.happened["came back"] += len((self._gone - gone) & image.brokers.keys())
        self._gone = gone

    # The end.

    def _heal_all(self) -> None:
        """
        End the faults, and have the operator do what sentences ask for: replace brokers that are gone, and undrain
        others that have to take their replicas.
        """
        super()._heal_all()
        self._until(self._has_controller, "there is no controller")
        self._help()
        self._until(self._is_healed, "the cluster has not healed itself")

    def _has_controller(self) -> bool:
        return self._controller() is not None

    def _help(self) -> None:
        """Do what sentences ask an operator to do: replace what is gone if the plan is stalled; undrain brokers."""
        machine = self._controller()
        self._is_helped = True
        if machine is not None and machine.broker is not None and machine.loop is not None:
            broker = machine.broker
            report = broker.rebalance.report()
            if report.status is Status.STALLED:
                self._ask_soon(machine, lambda broker, _: broker.operator_commands.replace(), BrokerId(0), "replaced")
            there = [it for it in broker.image.brokers.values() if self._is_there(it.broker_id)]
            able_count = sum(it.drain is Drain.NONE for it in there)
            undrained = [it.broker_id for it in there if it.drain is Drain.ALL and able_count < 3]
            if any(UNDRAIN in refusal.sentence for refusal in report.refusals):
                undrained += [it.broker_id for it in there if it.drain is Drain.LEADERS]
            if undrained:
                self._ask_soon(
                    machine,
                    lambda broker, broker_id: broker.operator_commands.drain(broker_id, Drain.NONE),
                    undrained[0],
                    "undrained",
                )
        self.timeline.after(seconds(HELP_S), self._help)

    def _ask_soon(
        self, machine: BrokerMachine, ask: Callable[[Broker, BrokerId], object], broker_id: BrokerId, what: str
    ) -> None:
        assert machine.loop is not None and machine.broker is not None
        machine.loop.after(0, partial(self._ask, machine.broker, ask, broker_id, what))

    def _is_there(self, broker_id: BrokerId) -> bool:
        return any(it.voter is not None and it.voter.broker_id == broker_id for it in self.machines)

    def _is_healed(self) -> bool:
        """
        Return whether every broker that is there counts again and every other one is GONE, no replica is planned on one
        that is GONE or drained, drained brokers lead nothing that another one could lead, and no file of a replica is
        left that has moved away.
        """
        if not all(machine.is_ready for machine in self.machines):
            return False
        machine = self._controller()
        if machine is None or machine.broker is None or machine.broker.rebalance.report().moves_count:
            return False
        image = machine.broker.image
        # A directory that was lost before it was registered carries nothing, and is left as it is.
        away = {it.broker_id for it in image.registered() if not self._is_there(it.broker_id)}
        gone = {it.broker_id for it in image.registered() if it.presence is Presence.GONE}
        silent = {it.broker_id for it in image.registered() if it.presence is Presence.SILENT}
        emptied = {it.broker_id for it in image.brokers.values() if it.drain is Drain.ALL}
        idle = {it.broker_id for it in image.brokers.values() if it.drain is not Drain.NONE}
        unregistered = {it.broker_id for it in image.brokers.values() if not it.is_registered}
        carrying = {replica.broker_id for shard in image.shards.values() for replica in shard.replicas}
        led = (
            shard.replica
            for it in self.machines
            if it.broker is not None and it.broker.broker_id in idle
            for shard in it.broker.shard_table.shards.values()
            if shard.replica.leads
        )
        has_wrong_leader = any(not idle.issuperset(broker_ids(replica.voters)) for replica in led)
        is_placed = not silent and gone == away and not carrying & (gone | emptied | unregistered)
        return is_placed and not has_wrong_leader and not any(self._left_files(it) for it in self.machines)

    def _left_files(self, machine: BrokerMachine) -> list[str]:
        """
        Return the directories of partitions of existing topics that have no open replica on a machine.  Those of a
        topic that was deleted while the broker was down may stay, unserved.
        """
        broker = machine.broker
        assert broker is not None, f"{machine.name} is ready"
        kept = {
            paths.partition_directory(partition.log.topic_id, number)
            for partitions in broker.shard_table.topics.values()
            for number, partition in partitions.items()
        }
        found = [
            f"{paths.TOPICS}/{topic_id.hex()}/{name}"
            for topic_id in broker.image.topics_by_id
            for name in machine.disk.list(f"{paths.TOPICS}/{topic_id.hex()}")
        ]
        return [path for path in found if path not in kept]


def with_time(knobs: ClusterKnobs) -> ClusterKnobs:
    """Return knobs with which runs last long enough for brokers to be gone and to be replaced."""
    return replace(knobs, duration_s=DURATION_S)


def healing_run(seed: int) -> HealingRun:
    brokers = BROKERS[seed % len(BROKERS)]
    return HealingRun(seed, with_time(ClusterKnobs.draw(Random(seed), brokers)))


def brief_healing_run(seed: int) -> HealingRun:
    knobs = ClusterKnobs.draw(Random(seed), BRIEF_BROKERS[seed % len(BRIEF_BROKERS)])
    return HealingRun(seed, brief(knobs, BRIEF_S), operation_s=BRIEF_OPERATION_S, settings=BRIEF)
