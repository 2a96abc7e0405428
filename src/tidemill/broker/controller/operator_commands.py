"""OperatorCommands: what an operator asks of the controller: to drain, replace or remove a broker, or to move a shard.

Each command checks first, and refuses with sentences that name what is in the way.  The answer comes when the command
is committed; the planner carries it out.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.controller.planner_view import PlannerView
from tidemill.broker.controller.rebalance_host import RebalanceHost
from tidemill.metadata.broker_states import BrokerChanged, SetDrain, SetPresence
from tidemill.metadata.controller import Command
from tidemill.metadata.image import ClusterImage, Shard
from tidemill.metadata.partition_reassignments import Voters, former_brokers, reassigning, untold_problem
from tidemill.metadata.reassignments import Move, PlanMoves, PlannedMoves
from tidemill.metadata.result import Problem
from tidemill.metadata.unregistration import UnregisterBroker
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId, broker_ids
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.rebalance.drain_check import NoPlace, Obstacle, check_drain
from tidemill.rebalance.may_stop import NoMajority, may_stop
from tidemill.rebalance.repairs import disk_problem
from tidemill.rebalance.sentences import counted
from tidemill.rebalance.slices import Slices
from tidemill.rebalance.view import BrokerView, View
from tidemill.shard.pending import OUTCOME_UNKNOWN, Pending

DRAINS_MAX: Final = 100  # that wait for their turn; each is checked in milliseconds
ALREADY: Final = "already"  # the kind of a finding: what was asked for is recorded already, and nothing has changed


class Finding(NamedTuple):
    """A fact that an operator should know: why something is refused, or what follows from it."""

    kind: str
    sentence: str
    shard_id: ShardId | None = None
    broker_id: BrokerId | None = None


class Answer(NamedTuple):
    problem: Problem | None = None  # why the command is refused
    findings: tuple[Finding, ...] = ()


DONE = Answer()
LOST = Answer(Problem(errors.REQUEST_TIMED_OUT, "the controller has changed; look whether the command took effect"))


class OperatorCommands:
    def __init__(
        self,
        host: RebalanceHost,
        controller: ControllerHost,
        image: Callable[[], ClusterImage],
        voters: Voters,
    ) -> None:
        self._host = host
        self._controller = controller
        self._image = image
        self._voters = voters
        self._drains: deque[Callable[[], None]] = deque()  # the first one is running, the others wait for their turn

    def drain(
        self, broker_id: BrokerId, drain: Drain, *, is_forced: bool = False, is_trial: bool = False
    ) -> Pending[Answer]:
        """
        Drain a broker of its leaders or of all that it has, or end its drain.  A drain of all is refused if a shard
        has no place elsewhere, unless it is forced, or recorded already; and it takes the leaders along, so a drain of
        these changes nothing meanwhile.  In a trial, it is only checked.

        Drains take turns, each until it is committed: two of them that were checked at the same time would both count
        on the other one's broker.
        """
        if len(self._drains) >= DRAINS_MAX:
            why = f"{len(self._drains)} drains are being checked already; try again in a second"
            return _answered(Answer(Problem(errors.REQUEST_TIMED_OUT, why)))
        pending: Pending[Answer] = Pending()

        def begin() -> None:
            self._drain(broker_id, drain, is_forced=is_forced, is_trial=is_trial).then(
                lambda answer: end(lambda: pending.complete(answer)), lambda error: end(lambda: pending.fail(error))
            )

        def end(answer: Callable[[], None]) -> None:
            self._drains.popleft()
            try:
                answer()
            finally:
                if self._drains:
                    self._drains[0]()

        self._drains.append(begin)
        if len(self._drains) == 1:
            begin()
        return pending

    def _drain(self, broker_id: BrokerId, drain: Drain, *, is_forced: bool, is_trial: bool) -> Pending[Answer]:
        problem = self._problem(broker_id)
        if problem is not None:
            return _answered(Answer(problem))
        command = SetDrain(broker_id=broker_id, drain=drain)
        recorded = self._image().brokers[broker_id].drain
        is_repeated = recorded is drain
        if drain is Drain.LEADERS and recorded is Drain.ALL:
            why = f"broker {broker_id} is being drained of all that it has, and so of its leaders already"
            return _answered(Answer(findings=(Finding(ALREADY, why, broker_id=broker_id),)))
        if drain is not Drain.ALL:
            of = "is not drained" if drain is Drain.NONE else "is drained of its leaders already"
            repeated = (Finding(ALREADY, f"broker {broker_id} {of}", broker_id=broker_id),) if is_repeated else ()
            return _answered(Answer(findings=repeated)) if is_trial else self._submit(command, repeated)
        pending: Pending[Answer] = Pending()

        def checked(found: tuple[NoPlace, ...] | Any) -> None:
            if found is OUTCOME_UNKNOWN:
                pending.complete(LOST)
                return
            findings = tuple(Finding(it.obstacle.value, it.sentence, shard_id=it.shard_id) for it in found)
            findings += self._switched_off()
            obstacles = [it for it in found if it.obstacle is not Obstacle.RACK]
            if is_repeated:
                findings += (Finding(ALREADY, self._progress(broker_id), broker_id=broker_id),)
            elif obstacles and not is_forced:
                pending.complete(Answer(_no_place(broker_id, obstacles), findings))
                return
            if is_trial:
                pending.complete(Answer(findings=findings))
            else:
                self._submit(command, findings).then(pending.complete, pending.fail)

        def check(image: ClusterImage, view: View, now_ms: int, planner: PlannerView) -> Slices[tuple[NoPlace, ...]]:
            if broker_id not in view.brokers:
                return ()  # it is not registered, and carries nothing
            return (yield from check_drain(image, view, self._host.policy, now_ms, planner.index, broker_id))

        checking = self._host.compute(check)
        checking.then(checked, pending.fail)
        return pending

    def _switched_off(self) -> tuple[Finding, ...]:
        """Return what an operator must know who has switched re-placement off: a drain does not override that."""
        if self._host.policy.is_enabled:
            return ()
        return (Finding("off", "nothing moves as long as tidemill.rebalance.enable is false"),)

    def _progress(self, broker_id: BrokerId) -> str:
        """Return how far the drain of a broker has come."""
        planned = {
            it
            for it, shard in self._image().shards.items()
            if any(key.broker_id == broker_id for key in shard.replicas)
        }
        left = len(planned.union(self._host.carrying(broker_id), self._host.untold()))
        if not left:
            return f"broker {broker_id} is drained already, and is empty"
        return f"broker {broker_id} is being drained already, and {counted(left, 'shard')} may still be on it"

    def may_stop(self, broker_id: BrokerId) -> Pending[Answer]:
        """Return the shards that would lose their in-sync majority if a broker stopped now, as findings."""
        problem = self._problem(broker_id)
        if problem is not None:
            return _answered(Answer(problem))
        pending: Pending[Answer] = Pending()

        def found(shards: tuple[NoMajority, ...] | Any) -> None:
            if shards is OUTCOME_UNKNOWN:
                pending.complete(LOST)
            else:
                findings = (
                    Finding("replicas" if it.is_lasting else "majority", it.sentence, shard_id=it.shard_id)
                    for it in shards
                )
                pending.complete(Answer(findings=tuple(findings)))

        computed = self._host.compute(lambda image, view, _now_ms, _planner: may_stop(image, view, broker_id))
        computed.then(found, pending.fail)
        return pending

    def replace(self, brokers: Sequence[BrokerId] = (), *, is_trial: bool = False) -> Pending[Answer]:
        """
        Declare brokers GONE, so that their replicas are placed elsewhere at once, although so many brokers are silent
        that none becomes GONE by itself.  Without `brokers`, all that are SILENT.
        """
        for broker_id in brokers:
            problem = self._problem(broker_id)
            if problem is not None:
                return _answered(Answer(problem))
        why = self._host.problem()
        if why is not None:
            return _answered(Answer(Problem(errors.NOT_CONTROLLER, why)))
        known = self._host.broker_views()
        chosen = brokers or [broker_id for broker_id, view in known.items() if _replacement_problem(view) is None]
        problems = [
            f"broker {broker_id} {why}" for broker_id in chosen if (why := _replacement_problem(known.get(broker_id)))
        ]
        if problems:
            return _answered(Answer(Problem(errors.INVALID_REQUEST, f"replacing is refused: {'; '.join(problems)}")))
        if not chosen:
            why = "no broker is SILENT; a broker is when no live broker has heard it for tidemill.broker.silent.ms"
            return _answered(Answer(Problem(errors.INVALID_REQUEST, why)))
        findings = (
            tuple(
                Finding("replaced", f"the replicas of broker {it} are placed on other brokers", broker_id=it)
                for it in chosen
            )
            + self._switched_off()
        )
        if is_trial:
            return _answered(Answer(findings=findings))
        commands = [SetPresence(broker_id=broker_id, presence=Presence.GONE) for broker_id in chosen]
        # Commands are committed in their order, and none of these is refused.
        return [self._submit(command, findings) for command in commands][-1]

    def move(self, shard_id: ShardId, brokers: Sequence[BrokerId]) -> Pending[Answer]:
        """Plan the replicas of a shard, the preferred leader first."""
        shard = self._image().shards.get(shard_id)
        full = None if shard is None else self.disk_problem(shard, brokers)
        if full is not None:
            return _answered(Answer(full))
        return self._plan(
            Move(
                shard_id=shard_id,
                brokers=tuple(brokers),
                reason=Reason.USER,
                is_under_way=self._is_under_way(shard),
                must_arrive=True,
                is_for_topic=shard is not None and len(brokers) != len(shard.replicas),
            )
        )

    def cancel(self, shard_id: ShardId) -> Pending[Answer]:
        """
        Plan the replicas again that a shard had before the move that is under way.  As when Kafka's command cancels it,
        a broker that is gone is replaced by one of the goal.
        """
        shard = self._image().shards.get(shard_id)
        if shard is None or not shard.previous or not self._is_under_way(shard):
            why = f"no replica of shard {shard_id} is on its way; `tidemill cluster moves` lists those that are"
            return _answered(Answer(Problem(errors.NO_REASSIGNMENT_IN_PROGRESS, why)))
        untold = untold_problem(shard, self._voters(shard_id))
        if untold is not None:
            return _answered(Answer(untold))
        former = former_brokers(self._image(), shard)
        if isinstance(former, Problem):
            return _answered(Answer(former))
        return self._plan(
            Move(
                shard_id=shard_id,
                brokers=former,
                reason=Reason.USER,
                expected=shard.replicas,
                is_under_way=True,
            )
        )

    def disk_problem(self, shard: Shard, brokers: Sequence[BrokerId]) -> Problem | None:
        """Return why the planner would soon undo a move to `brokers`: a newcomer's disk is too full."""
        known = self._host.broker_views()
        there = broker_ids((*shard.replicas, *(shard.previous if self._is_under_way(shard) else ())))
        for broker_id in brokers:
            if broker_id in known and broker_id not in there:
                full = disk_problem(known[broker_id], self._host.policy)
                if full is not None:
                    what = f"replicas of shard {shard.shard_id} on brokers {list(brokers)} are refused"
                    why = f"{what}: {full}; free space on it, or name another one"
                    return Problem(errors.INVALID_REPLICA_ASSIGNMENT, why)
        return None

    def _is_under_way(self, shard: Shard | None) -> bool:
        return shard is not None and reassigning(shard, self._voters(shard.shard_id)) is not None

    def remove(self, broker_id: BrokerId) -> Pending[Answer]:
        """Remove a broker from the cluster that is down and carries nothing."""
        problem = self._problem(broker_id)
        if problem is not None:
            return _answered(Answer(problem))
        others = self._host.heard_by_others(broker_id)
        if others:
            why = (
                f"unregistering broker {broker_id} is refused: {counted(others, 'broker')} can hear it, although the "
                "controller does not; drain it with `tidemill cluster drain`, and stop it"
            )
            return _answered(Answer(Problem(errors.INVALID_REQUEST, why)))
        carrying, untold = self._host.carrying(broker_id), self._host.untold()
        return self._submit(UnregisterBroker(broker_id=broker_id, carrying=carrying, untold=untold))

    def _problem(self, broker_id: BrokerId) -> Problem | None:
        """Return why a command about a broker cannot be carried out here; None if it can."""
        why = self._host.problem()
        if why is not None:
            return Problem(errors.NOT_CONTROLLER if self._host.is_elsewhere else errors.UNSUPPORTED_VERSION, why)
        brokers = self._image().brokers
        if broker_id in brokers:
            return None
        names = ", ".join(map(str, sorted(brokers)))
        why = f"broker {broker_id} is not in this cluster; its brokers are {names}"
        return Problem(errors.BROKER_ID_NOT_REGISTERED, why)

    def _plan(self, move: Move) -> Pending[Answer]:
        if self._host.is_elsewhere:
            return _answered(LOST)
        pending: Pending[Answer] = Pending()

        def planned(outcome: PlannedMoves | Any) -> None:
            pending.complete(LOST if outcome is OUTCOME_UNKNOWN else Answer(outcome.problems[0]))

        self._controller.submit(PlanMoves(moves=(move,))).then(planned, pending.fail)
        return pending

    def _submit(self, command: Command, findings: tuple[Finding, ...] = ()) -> Pending[Answer]:
        """Submit a command that is answered with BrokerChanged."""
        if self._host.is_elsewhere:
            return _answered(LOST)
        pending: Pending[Answer] = Pending()

        def changed(outcome: BrokerChanged | Any) -> None:
            pending.complete(LOST if outcome is OUTCOME_UNKNOWN else Answer(outcome.problem, findings))

        self._controller.submit(command).then(changed, pending.fail)
        return pending


def _answered(answer: Answer) -> Pending[Answer]:
    pending: Pending[Answer] = Pending()
    pending.complete(answer)
    return pending


def _no_place(broker_id: BrokerId, obstacles: Sequence[NoPlace]) -> Problem:
    named = "; ".join(it.sentence for it in obstacles[:5])
    more = f"; and {len(obstacles) - 5} more" if len(obstacles) > 5 else ""
    return Problem(
        errors.INVALID_REQUEST,
        f"draining broker {broker_id} is refused because of {counted(len(obstacles), 'shard')}: {named}{more}",
    )


def _replacement_problem(view: BrokerView | None) -> str | None:
    """Return why a broker cannot be declared GONE; None if it can."""
    if view is None:
        return "has not been looked at yet; try again in a second"
    if view.presence is Presence.ACTIVE:
        return "is ACTIVE; drain it instead, or wait until it has been silent for tidemill.broker.silent.ms"
    if view.is_live or view.heard_by:
        return f"is heard by {counted(view.heard_by, 'broker')}; drain it instead"
    return None if view.presence is Presence.SILENT else "is GONE already"
