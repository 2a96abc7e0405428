"""RebalanceHost: runs the planner on the controller, once a second, and carries out what it decides.

    tick ─▶ view ─▶ decide_presence ─▶ SetPresence ─┐
                └─▶ decide ─────────▶ PlanMoves ────┴─▶ committed, applied ─▶ the next pass

A pass runs in slices between other work, and its commands end before the next pass begins, so that no step is planned
twice.  Nothing is kept for the next controller: the image says what was planned, and how long a broker has been SILENT.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from tidemill.broker.controller.broker_watch import BrokerWatch
from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.controller.planner_view import Figures, PlannerView
from tidemill.broker.controller.rebalance_history import RebalanceHistory
from tidemill.broker.controller.rebalance_report import (
    MOVES_MAX,
    RebalanceReport,
    moves_under_way,
    reported_brokers,
)
from tidemill.broker.controller.sliced_jobs import SlicedJobs
from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import Cluster
from tidemill.metadata.broker_states import BrokerChanged, SetPresence
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER, refusal_below
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.reassignments import Move, PlanMoves, PlannedMoves
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.model.clock import Clock
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.rebalance.plan import Plan, Refusal, Status, Step
from tidemill.rebalance.planner import decide
from tidemill.rebalance.policy import Policy, policy_of
from tidemill.rebalance.presence import PresenceDecision, decide_presence
from tidemill.rebalance.slices import Slices
from tidemill.rebalance.view import BrokerView, ShardView, View
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown, Pending

PASS_MS: Final = 1_000


class Transfers(Protocol):
    """The part of `AwaitedTransfers` that this module uses."""

    def plan(self, moves: Sequence[tuple[ShardId, BrokerId]]) -> None:
        """Have these brokers lead these shards, wherever they are led now."""
        ...

    def waiting(self) -> Iterable[tuple[ShardId, str]]:
        """Yield each shard whose new leader takes its time, and why."""
        ...


@dataclass(slots=True)
class _Period:
    """The time in which this broker is the controller, in one term."""

    term: int
    view: PlannerView
    plan: Plan | None = None  # the last one
    planned_at_ms: int | None = None  # wall clock
    passed_at_ms: int | None = None  # when the last pass began
    is_passing: bool = False  # a pass, or one of its commands, has not ended yet


class _Decided(NamedTuple):
    presence: PresenceDecision
    plan: Plan
    moves: tuple[Move, ...]  # one for each step of the plan


class RebalanceHost:
    def __init__(
        self,
        *,
        controller: ControllerHost,
        cluster: Cluster,
        machine: Machine,
        figures: Figures,
        image: Callable[[], ClusterImage],
        layers: Callable[[], BrokerLayers],
        transfers: Transfers,
        stall_tolerant_clock: Clock,
    ) -> None:
        """`figures` are what brokers have reported."""
        self.failures = 0  # computations that ended with an error, which is a bug
        self._controller = controller
        self._cluster = cluster
        self._machine = machine
        self._figures = figures
        self._image = image
        self._layers = layers
        self._transfers = transfers
        self._clock = stall_tolerant_clock
        self._history = RebalanceHistory(machine)
        self._jobs = SlicedJobs(machine.turns)
        self._period: _Period | None = None

    def tick(self) -> None:
        """Begin a pass if one is due.  Called a few times a second, on every broker."""
        period, image, now_ms = self._current_period(), self._image(), self._clock.monotonic_ms()
        if period is None or not image.cluster_id or image.feature_level < ELASTIC_CLUSTER:
            return
        period.view.watch.observe(image, self.policy, now_ms)
        is_due = period.passed_at_ms is None or now_ms - period.passed_at_ms >= PASS_MS
        if is_due and not period.is_passing and self._controller.accepts_writes:
            period.passed_at_ms, period.is_passing = now_ms, True
            self._jobs.run(self._pass(period)).then(partial(self._decided, period), partial(self._failed, period))

    def _current_period(self) -> _Period | None:
        """
        Return the present period, or None if others are the controller.  It begins here, and not only at the next tick:
        requests arrive as soon as this broker is the controller.
        """
        if not self._controller.leads:
            self._end_period()
            return None
        term = self._cluster.controller_term
        if self._period is None or self._period.term != term:
            self._end_period()
            watch = BrokerWatch(self._cluster, self._cluster.me.broker_id)
            self._period = _Period(term, PlannerView(watch, self._figures, self._clock.monotonic_ms()))
        return self._period

    def _end_period(self) -> None:
        if self._period is not None:
            self._period = None
            self._jobs.give_up()

    # What operators ask for.

    @property
    def policy(self) -> Policy:
        return policy_of(self._layers())

    @property
    def is_elsewhere(self) -> bool:
        """Whether this broker is not the controller, or is just handing that over."""
        return self._current_period() is None or not self._controller.accepts_writes

    @property
    def is_beginning(self) -> bool:
        """
        Whether this broker is the controller, and no pass has ended yet, so that a report would lack brokers and moves.
        """
        period = self._current_period()
        return period is not None and period.plan is None and self._image().feature_level >= ELASTIC_CLUSTER

    def problem(self) -> str | None:
        """Return why this broker can neither plan nor carry out what an operator wants; None if it can."""
        if self.is_elsewhere:
            return "this broker is not the controller; ask again"
        return refusal_below(ELASTIC_CLUSTER, self._image().feature_level, "re-placement")

    @property
    def plan(self) -> Plan | None:
        """The last plan, or an empty one before it, or below the feature level; None if others are the controller."""
        period = self._period
        if period is None:
            return None
        if self._image().feature_level < ELASTIC_CLUSTER:
            return Plan((), (), Status.OFF)
        return period.plan or Plan((), (), Status.IDLE)

    @property
    def moves_count(self) -> int:
        """How many shards have voters that are not the planned replicas, as far as this broker knows as controller."""
        return 0 if self._period is None else len(self._period.view.index.under_way)

    @property
    def missing_bytes(self) -> int:
        """How many bytes the new replicas of these shards lack together, as far as their leaders have reported."""
        return 0 if self._period is None else self._period.view.index.missing_bytes

    def report(self, plan: Plan | None = None) -> RebalanceReport:
        """Return the state of re-placement, with the last plan, or with `plan` instead."""
        period, image, last = self._period, self._image(), self.plan
        if period is None or last is None:
            return RebalanceReport(status=Status.OFF, why="the controller plans, and this broker is not the controller")
        below = refusal_below(ELASTIC_CLUSTER, image.feature_level, "re-placement")
        if below is not None:
            return RebalanceReport(status=Status.OFF, why=below)
        shown = plan or last
        view, index = period.view.newest, period.view.index
        return RebalanceReport(
            status=shown.status,
            why=_why(shown),
            planned_at_ms=period.planned_at_ms if plan is None else self._machine.clock.wall_ms(),
            steps=shown.steps,
            refusals=shown.refusals + tuple(Refusal(f"shard {it}", why) for it, why in self._transfers.waiting()),
            recent=tuple(self._history.steps),
            notes=tuple(self._history.notes),
            brokers=reported_brokers(image, view, index),
            moves=moves_under_way(image, view, index),
            moves_count=len(index.under_way),
            untold_count=len(index.untold),
            untold=tuple(islice(index.untold, MOVES_MAX)),
        )

    def broker_views(self) -> Mapping[BrokerId, BrokerView]:
        """Return the brokers as the last pass saw them."""
        return {} if self._period is None else self._period.view.newest.brokers

    def heard_by_others(self, broker_id: BrokerId) -> int:
        """Return how many live brokers hear a broker that the controller does not hear now."""
        is_heard = self._image().brokers[broker_id].is_registered and broker_id not in self._cluster.live()
        return self._cluster.heard_by(broker_id) if is_heard else 0

    def carrying(self, broker_id: BrokerId) -> tuple[ShardId, ...]:
        """
        Return the shards of which a broker is a member, as their leaders say.  Of the metadata shard, every broker is a
        learner until it is removed, so only voters count there.
        """
        found = []
        for shard_id, figures in self._known_shards():
            membership = None if figures is None else figures.membership
            if membership is not None:
                members = membership.voters if shard_id == METADATA_SHARD else membership.members
                if any(it.broker_id == broker_id for it in members):
                    found.append(shard_id)
        return tuple(found)

    def untold(self) -> tuple[ShardId, ...]:
        """Return the shards whose members no leader has told yet: any broker may be one of them."""
        known = self._known_shards()
        return tuple(shard_id for shard_id, figures in known if figures is None or figures.membership is None)

    def _known_shards(self) -> Iterator[tuple[ShardId, ShardView | None]]:
        known = {} if self._period is None else self._period.view.newest.shards
        return ((shard_id, known.get(shard_id)) for shard_id in self._image().shards)

    def compute(self, core: "Core") -> Pending[Any]:
        """
        Return the result of a computation on the image and the view of now, which begins when those before it have
        ended.  OUTCOME_UNKNOWN: this broker is not the controller any more.
        """
        period = self._current_period()
        if period is None:
            pending: Pending[Any] = Pending()
            pending.complete(OUTCOME_UNKNOWN)
            return pending
        return self._jobs.run(self._computed(period, core))

    def plan_anew(self) -> Pending[Plan | OutcomeUnknown]:
        """Return what the planner would do now if it were enabled.  Nothing is carried out."""
        return self.compute(
            lambda image, view, now_ms, planner: decide(
                image, view, replace(self.policy, is_enabled=True), now_ms, planner.index
            )
        )

    def look_again(self) -> Pending[OutcomeUnknown | None]:
        """
        Bring the view up to date, for a report: a shard that was moved since the last pass would not be among the moves
        under way, and a command that waits for it would take it for arrived.
        """

        def nothing(*_: Any) -> Slices[None]:
            yield

        return self.compute(nothing)

    def _computed(self, period: _Period, core: "Core") -> Slices[Any]:
        image, now_ms = self._image(), self._clock.monotonic_ms()
        view = yield from period.view.refresh(image, self.policy, now_ms)
        return (yield from core(image, view, now_ms, period.view))

    # One pass.

    def _pass(self, period: _Period) -> Slices[_Decided]:
        policy, index = self.policy, period.view.index
        image, now_ms = self._image(), self._clock.monotonic_ms()
        view = yield from period.view.refresh(image, policy, now_ms)
        yield
        plan = yield from decide(image, view, policy, now_ms, index)
        presence = decide_presence(image, view, policy, index)
        moves = tuple(
            Move(
                shard_id=step.shard_id,
                brokers=tuple(broker_ids(step.replicas)),
                reason=step.reason,
                expected=image.shards[step.shard_id].replicas,
                is_under_way=step.shard_id in index.under_way,
            )
            for step in plan.steps
        )
        return _Decided(presence, plan, moves)

    def _decided(self, period: _Period, decided: _Decided | OutcomeUnknown) -> None:
        if decided is OUTCOME_UNKNOWN or period is not self._period:
            return
        period.plan, period.planned_at_ms = decided.plan, self._machine.clock.wall_ms()
        self._history.refused(decided.plan.refusals)
        if not self._controller.accepts_writes:
            period.is_passing = False
            return
        changes = decided.presence.changes
        waits = _Outstanding(len(changes) + bool(decided.moves), partial(self._passed, period))
        for change in changes:
            command = SetPresence(broker_id=change.broker_id, presence=change.presence)

            def changed(outcome: BrokerChanged | OutcomeUnknown, change: Any = change) -> None:
                if outcome is not OUTCOME_UNKNOWN and outcome.problem is None:
                    self._history.presence_changed(change)
                waits.end_one()

            self._controller.submit(command).then(changed)
        if decided.moves:
            steps = decided.plan.steps

            def planned(outcome: PlannedMoves | OutcomeUnknown) -> None:
                if outcome is not OUTCOME_UNKNOWN:
                    self._planned(steps, outcome)
                waits.end_one()

            self._controller.submit(PlanMoves(moves=decided.moves)).then(planned)

    def _planned(self, steps: Sequence[Step], outcome: PlannedMoves) -> None:
        """Note the steps of a plan that are committed now, and let the new leaders of LEADER lead."""
        transfers = []
        for step, problem in zip(steps, outcome.problems, strict=True):
            self._history.planned(step, None if problem is None else problem.message)
            if problem is None and step.reason is Reason.LEADER:
                transfers.append((step.shard_id, step.replicas[0].broker_id))
        if transfers:
            self._transfers.plan(transfers)

    def _passed(self, period: _Period) -> None:
        period.is_passing = False

    def _failed(self, period: _Period, error: BaseException) -> None:
        self.failures += 1
        self._history.failed(error)
        period.is_passing = False


Core = Callable[[ClusterImage, View, int, PlannerView], Slices[Any]]


class _Outstanding:
    """Calls back once a number of commands have ended; at once if there are none."""

    def __init__(self, count: int, done: Callable[[], None]) -> None:
        self._count = count
        self._done = done
        if not count:
            done()

    def end_one(self) -> None:
        self._count -= 1
        if not self._count:
            self._done()


def _why(plan: Plan) -> str | None:
    """Return why a plan is stalled or off."""
    if plan.status is Status.OFF:
        return "tidemill.rebalance.enable is false"
    if plan.status is Status.STALLED:
        return next(refusal.sentence for refusal in plan.refusals if refusal.what == "cluster")
    return None
