"""A healthy simulated cluster, in which a script brings about what one rule of re-placement is for.

    script ─▶ losses, drains, plans, figures ─▶ brokers ─▶ `until`, `throughout` ─▶ done, or InvariantViolation

Random operations under random faults seldom meet what a single rule of `docs/rebalance.md` protects against: that
needs a copy that is slow, a figure that is old, or a broker that is away just then.  Copies, figures and metadata are
therefore held back where a script says so.  A run ends with its script, and takes seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.cluster.healing_run import HealingRun
from tidemill.broker import broker as broker_module
from tidemill.broker.broker import Broker
from tidemill.broker.controller import rebalance_host
from tidemill.broker.controller.operator_commands import Answer
from tidemill.broker.controller.rebalance_report import RebalanceReport
from tidemill.broker.load.reported_load import ReportedLoad
from tidemill.broker.maintenance.membership_reconciler import MembershipReconciler
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.metadata.image import Broker as RegisteredBroker
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.reassignments import Move, PlanMoves
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.peer.load import BrokerLoad, Load, ShardLoad
from tidemill.raft.replica import Replica
from tidemill.rebalance.plan import BEGINS
from tidemill.rebalance.policy import Policy
from tidemill.shard.pending import Pending
from tidemill.shard.shard import Shard
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import TOPIC
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.crash_fate import ALL_LOST
from tidemill.simulation.machine.machine import seconds

STEP_S: Final = 0.05  # how often a script looks
WITHIN_S: Final = 12.0  # what a script waits for happens within this time
REPLICAS: Final = 3
GIB: Final = 1 << 30
DISK: Final = 100 * GIB
SIZE: Final = 8 * GIB  # of each shard, as its leader reports it
CPU: Final = 200  # per mille of a core, that the leader of a shard spends on it
UNBALANCED: Final[Mapping[str, int]] = {"count_floor": 1_000_000, "bytes_floor": 1 << 60}
"""COUNT and BYTES never begin, so that steps have the reason that a script is about."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Script:
    act: Callable[["DirectedRun"], None]
    brokers: int = 5
    founders: int = 3  # the brokers that run when the topic is created, so that it is placed on them
    shards: int = 1
    racks: Sequence[str | None] = ()  # of the brokers
    settings: Mapping[str, str] = field(default_factory=dict)  # of every broker
    limits: Mapping[str, int] = field(default_factory=lambda: UNBALANCED)  # fields of `Policy` that are no settings
    send_bytes_per_s: int | None = None  # that a broker sends for copies
    pause_s: float = 0.2  # the mean time between two batches of a producer


class DirectedRun(HealingRun):
    def __init__(self, seed: int, script: Script) -> None:
        drawn = ClusterKnobs.draw(Random(seed), script.brokers).without_faults()
        knobs = replace(
            drawn,
            partitions=script.shards,
            producers=1,
            in_flight=1,
            pause_s=script.pause_s,
            delay_us=min(drawn.delay_us, 1_000),
            sync_us=min(drawn.sync_us, 2_000),
        )
        super().__init__(seed, knobs, operation_s=None, settings=script.settings)
        for machine, rack in zip(self.machines, script.racks, strict=False):
            machine.rack = rack
        self.random = Random(seed)
        self.script = script
        self.is_copying_slow = False  # no newcomer gets so far that it may vote
        self.copied_percent = 0  # how much of a shard newcomers have meanwhile, as leaders report it
        self.other_bytes: dict[BrokerMachine, int] = {}  # on a disk, beside its replicas
        self.unmeasured: set[BrokerMachine] = set()  # the controller receives no figures of these brokers
        self.late: BrokerMachine | None = None  # the controller receives its figures when this is None again
        self.lagging: BrokerMachine | None = None  # receives no metadata
        self._late_figures: list[Callable[[], None]] = []
        self._led_before: dict[BrokerMachine, int] = {}  # how many shards a broker led at its report before the last

    def run(self) -> None:
        report, caught_up = ReportedLoad.report, MembershipReconciler._caught_up
        receive, policy_of = ShardTable.receive, rebalance_host.policy_of

        def report_measured(reported: ReportedLoad, sender: ReplicaKey, load: Load) -> None:
            machine = self._machine_of(sender)
            if machine in self.unmeasured:
                return
            if machine is self.late:
                self._late_figures.append(partial(report, reported, sender, load))
            else:
                report(reported, sender, self._measured(machine, load))

        def caught_up_slowly(reconciler: MembershipReconciler, replica: Replica) -> list[ReplicaKey]:
            known = caught_up(reconciler, replica)
            is_slow = self.is_copying_slow and replica is not reconciler._shard_table.shards[METADATA_SHARD].replica
            return [it for it in known if it in replica.voters] if is_slow else known

        def receive_metadata(table: Any, sender: ReplicaKey, shard_id: ShardId, message: Any) -> None:
            if shard_id != METADATA_SHARD or self.lagging is None or table._me != self.lagging.voter:
                receive(table, sender, shard_id, message)

        def limited(layers: Any) -> Policy:
            return replace(policy_of(layers), **self.script.limits)

        with ExitStack() as patches:
            patches.enter_context(patch.object(ReportedLoad, "report", report_measured))
            patches.enter_context(patch.object(MembershipReconciler, "_caught_up", caught_up_slowly))
            patches.enter_context(patch.object(ShardTable, "receive", receive_metadata))
            patches.enter_context(patch.object(rebalance_host, "policy_of", limited))
            if (rate := self.script.send_bytes_per_s) is not None:
                patches.enter_context(patch.object(broker_module, "move_bytes_per_s", lambda _: rate))
            super().run()

    def _run(self) -> None:
        founders, others = self.machines[: self.script.founders], self.machines[self.script.founders :]
        for machine in founders:
            machine.start()
        self.until(lambda: all(machine.is_ready for machine in founders), "the founders are not ready", 30)
        self._in_client(self._prepare())
        self.until(lambda: bool(self._readers), "the topic was not created", 30)
        for machine in others:
            machine.start()
        self.until(self._is_settled, "the cluster has not settled", 15)
        self.script.act(self)
        self.happened["scripts"] += 1

    def _is_settled(self) -> bool:
        """Return whether all brokers are ready, each shard is led by its voters, and the controller plans."""
        if not all(machine.is_ready for machine in self.machines) or not self._has_controller():
            return False
        image = self.image
        metadata_voters = min(5, len(self.machines) - (len(self.machines) % 2 == 0))
        return (
            self.is_planning
            and not self.report().moves_count
            and len(image.registered()) == len(self.machines)
            and len(image.shards[METADATA_SHARD].replicas) == metadata_voters
            and all(set(self.voters(it)) == set(shard.replicas) for it, shard in image.shards.items())
        )

    # Time.

    def until(self, holds: Callable[[], bool], otherwise: str, within_s: float = WITHIN_S) -> None:
        """Let time pass until the condition holds.  Raise InvariantViolation if that takes too long."""
        end_us = self.timeline.now_us + seconds(within_s)
        while not holds():
            if self.timeline.now_us >= end_us:
                raise InvariantViolation(f"{otherwise} within {within_s} s: {self.check.describe()}")
            self._pass(STEP_S)

    def throughout(self, holds: Callable[[], bool], for_s: float, otherwise: str) -> None:
        """Let time pass.  Raise InvariantViolation as soon as the condition does not hold."""
        end_us = self.timeline.now_us + seconds(for_s)
        while self.timeline.now_us < end_us:
            self.require(holds(), otherwise)
            self._pass(STEP_S)

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise InvariantViolation(f"{otherwise}: {self.check.describe()}")

    def _pass(self, for_s: float) -> None:
        self.timeline.run_until(self.timeline.now_us + seconds(for_s))

    # What is the case.

    @property
    def controller(self) -> BrokerMachine:
        machine = self._controller()
        if machine is None:
            raise InvariantViolation(f"there is no controller: {self.check.describe()}")
        return machine

    @property
    def image(self) -> ClusterImage:
        """The newest image."""
        images = [machine.broker.image for machine in self.machines if machine.broker is not None]
        return max(images, key=lambda image: image.offset)

    @property
    def shards(self) -> tuple[ShardId, ...]:
        topic = self.image.topic(TOPIC)
        assert topic is not None, "it was created"
        return topic.shard_ids

    @property
    def is_planning(self) -> bool:
        """Whether the controller has begun to plan: it waits for figures first."""
        report = self.report()
        return report.planned_at_ms is not None and not any(it.what == BEGINS for it in report.refusals)

    def report(self) -> RebalanceReport:
        return _broker(self.controller).rebalance.report()

    def goal(self, shard_id: ShardId) -> list[BrokerMachine]:
        """Return the brokers on which the replicas of a shard are planned."""
        return [self._machine_of(replica) for replica in self.image.shards[shard_id].replicas]

    def leading(self, shard_id: ShardId) -> Shard | None:
        """Return the serving leader's replica of a shard."""
        led = [
            shard
            for machine in self.machines
            if machine.broker is not None
            and (shard := machine.broker.shard_table.shards.get(shard_id)) is not None
            and shard.is_serving
        ]
        return max(led, key=lambda shard: shard.replica.term, default=None)

    def leader(self, shard_id: ShardId) -> BrokerMachine | None:
        shard = self.leading(shard_id)
        return None if shard is None else self._machine_of(shard.replica.me)

    def voters(self, shard_id: ShardId) -> tuple[ReplicaKey, ...]:
        """Return the voters in force of a shard, none without a leader."""
        shard = self.leading(shard_id)
        return () if shard is None else shard.replica.voters

    def votes(self, shard_id: ShardId, *machines: BrokerMachine) -> bool:
        """Return whether exactly these machines have a vote in a shard."""
        return set(self.voters(shard_id)) == {machine.voter for machine in machines}

    def newcomers(self, shard_id: ShardId) -> set[BrokerMachine]:
        """Return the brokers that are planned for a shard and do not vote yet; empty without a leader."""
        voters = self.voters(shard_id)
        return {it for it in self.goal(shard_id) if it.voter not in voters} if voters else set()

    def known(self, machine: BrokerMachine) -> RegisteredBroker:
        return self.image.brokers[self.id_of(machine)]

    def are(self, presence: Presence, *machines: BrokerMachine) -> bool:
        return all(self.known(machine).presence is presence for machine in machines)

    def is_heard(self, machine: BrokerMachine) -> bool:
        """Return whether a broker that is live hears the machine."""
        return _broker(self.controller).cluster.heard_by(self.id_of(machine)) > 0

    def leader_counts(self) -> list[int]:
        """Return how many shards of the topic each broker leads, the smallest number first."""
        leaders = [self.leader(shard_id) for shard_id in self.shards]
        return sorted(leaders.count(machine) for machine in self.machines)

    def carries(self, machine: BrokerMachine) -> bool:
        return any(machine.voter in shard.replicas for shard in self.image.shards.values())

    @staticmethod
    def id_of(machine: BrokerMachine) -> BrokerId:
        assert machine.voter is not None, f"{machine.name} has an identity"
        return machine.voter.broker_id

    def away(self, *machines: BrokerMachine) -> list[BrokerMachine]:
        """Return the other brokers."""
        return [machine for machine in self.machines if machine not in machines]

    def _machine_of(self, voter: ReplicaKey) -> BrokerMachine:
        return next(machine for machine in self.machines if machine.voter == voter)

    # What scripts do.

    def lose(self, *machines: BrokerMachine) -> None:
        """Have machines lose power.  They stay down until the script starts them."""
        for machine in machines:
            machine.lose_power(ALL_LOST)

    def cut_off(self, *machines: BrokerMachine) -> None:
        """Cut machines off from all others."""
        for machine in machines:
            for other in self.away(machine):
                self.cut(machine, other)

    def cut(self, one: BrokerMachine, other: BrokerMachine) -> None:
        self.network.blocked |= {(one.name, other.name), (other.name, one.name)}

    def ask(self, command: Callable[[Broker], Pending[Answer]]) -> Answer:
        """Ask the controller for something, and return its answer."""
        machine, answers = self.controller, list[Answer]()
        assert machine.loop is not None, "the controller runs"
        machine.loop.after(0, lambda: command(_broker(machine)).then(answers.append))
        self.until(lambda: bool(answers), "the controller has not answered")
        return answers[0]

    def drain(self, machine: BrokerMachine, drain: Drain, *, is_forced: bool = False) -> None:
        answer = self.ask(lambda it: it.operator_commands.drain(self.id_of(machine), drain, is_forced=is_forced))
        self.require(answer.problem is None, f"a drain of {machine.name} is refused: {answer.problem}")

    def move(self, shard_id: ShardId, *machines: BrokerMachine) -> None:
        answer = self.ask(lambda it: it.operator_commands.move(shard_id, [self.id_of(machine) for machine in machines]))
        self.require(answer.problem is None, f"a move of shard {shard_id} is refused: {answer.problem}")

    def prefer(self, machine: BrokerMachine, shard_id: ShardId) -> None:
        """Plan the replicas of a shard where they are, with another preferred leader, as if they were created so."""
        brokers = sorted(map(self.id_of, self.goal(shard_id)), key=lambda it: it != self.id_of(machine))
        controller, move = self.controller, Move(shard_id=shard_id, brokers=tuple(brokers), reason=Reason.PLACED)
        assert controller.loop is not None, "the controller runs"
        controller.loop.after(0, partial(_broker(controller).controller.submit, PlanMoves(moves=(move,))))  # type: ignore[arg-type]
        self.until(lambda: self.goal(shard_id)[0] is machine, f"{machine.name} is not preferred for shard {shard_id}")

    def let_lead(self, machine: BrokerMachine, *shard_ids: ShardId) -> None:
        """Transfer the leadership of shards to a broker."""
        for shard_id in shard_ids:
            self.until(partial(self._leads, machine, shard_id), f"{machine.name} does not lead shard {shard_id}")

    def _leads(self, machine: BrokerMachine, shard_id: ShardId) -> bool:
        leader, shard = self.leader(shard_id), self.leading(shard_id)
        if leader is not machine and leader is not None and shard is not None and machine.voter is not None:
            assert leader.loop is not None, "it leads"
            leader.loop.after(0, partial(shard.transfer_leadership, machine.voter))
        return leader is machine

    def hear(self) -> None:
        """Let the figures of the broker that was late arrive."""
        self.late, late = None, self._late_figures
        self._late_figures = []
        for arrive in late:
            arrive()

    # What brokers measure: simulated machines have endless disks, and code takes no time on them.

    def _measured(self, machine: BrokerMachine, load: Load) -> Load:
        broker = None if load.broker is None else self._measured_broker(machine, load.broker)
        return replace(load, broker=broker, shards=tuple(map(self._measured_shard, load.shards)))

    def _measured_broker(self, machine: BrokerMachine, load: BrokerLoad) -> BrokerLoad:
        """Return what a broker measures.  Its CPU time is an average, and does not show the last interval yet."""
        led_before, shards = self._led_before.get(machine, 0), self.image.shards
        self._led_before[machine] = sum(
            shard_id != METADATA_SHARD and self.leader(shard_id) is machine for shard_id in shards
        )
        used = sum(SIZE for it in shards if it != METADATA_SHARD and machine.voter in self.voters(it))
        used += self.other_bytes.get(machine, 0)
        return replace(load, disk_total=DISK, disk_used=used, cpu=CPU * led_before)

    def _measured_shard(self, load: ShardLoad) -> ShardLoad:
        if load.shard_id == METADATA_SHARD:
            return load
        missing = SIZE * (100 - self.copied_percent) // 100
        return replace(load, size=SIZE, cpu=CPU * load.is_measured, behind=(missing,) * len(load.learners))


def _broker(machine: BrokerMachine) -> Broker:
    assert machine.broker is not None, f"{machine.name} is up"
    return machine.broker
