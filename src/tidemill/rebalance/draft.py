"""Draft: one pass of the planner: what it knows, what it has planned so far, and the rules for every step."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from tidemill.metadata.image import ClusterImage, Shard
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.model.data_size import size_text
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.rebalance.accounts import Accounts, sender
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.plan import Plan, Refusal, Status, Step
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.sentences import counted, duration
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.slices import Slices, Work
from tidemill.rebalance.targets import Choice, Targets
from tidemill.rebalance.view import ShardView, View

METADATA_REPLICAS_MIN: Final = (
    3  # four tolerate no more failures, so the metadata of a smaller cluster shrinks to three
)
REFUSALS_MAX: Final = 100  # for each reason; more are counted, because a plan is kept and shown as a whole


class Outcome(Enum):
    """What came of an attempt to plan a step."""

    PLANNED = auto()
    REFUSED = auto()  # with a sentence
    WAITS = auto()  # for a limit, or for a step that is under way


class Draft:
    def __init__(
        self,
        image: ClusterImage,
        view: View,
        policy: Policy,
        now_ms: int,
        index: ShardIndex,
        brokers: BrokerSet,
        accounts: Accounts,
    ) -> None:
        self.image = image
        self.view = view
        self.policy = policy
        self.now_ms = now_ms
        self.index = index
        self.brokers = brokers
        self.accounts = accounts
        self.targets = Targets(brokers, accounts, policy)
        self.work = Work()
        self.waiting: Counter[Reason] = Counter()  # shards that wait for a limit on copies
        self._steps: dict[ShardId, Step] = {}
        self._refusals: dict[Reason, list[Refusal]] = {}
        self._unnamed: Counter[Reason] = Counter()  # refusals beyond REFUSALS_MAX

    def plan(self, status: Status) -> Plan:
        refusals = [refusal for reason in sorted(self._refusals) for refusal in self._refusals[reason]]
        for reason, count in sorted(self._unnamed.items()):
            sentence = f"{counted(count, 'refusal')} more for this reason"
            refusals.append(Refusal(reason.name.lower(), sentence, is_wish=reason >= Reason.LEADER))
        for reason, count in sorted(self.waiting.items()):
            moves = self.accounts.moves
            copies = "1 copy is" if moves == 1 else f"{moves} copies are"
            sentence = (
                f"{counted(count, 'shard')} more: {copies} under way or planned, and at most "
                f"{self.policy.broker_moves_max} to or from a broker and {self.policy.cluster_moves_max} in the cluster"
            )
            refusals.append(Refusal(reason.name.lower(), sentence))
        return Plan(tuple(self._steps.values()), tuple(refusals), status)

    @property
    def has_steps(self) -> bool:
        return bool(self._steps)

    @property
    def is_full(self) -> bool:
        """Whether as many copies are under way or planned as the cluster may have."""
        return self.accounts.moves >= self.policy.cluster_moves_max

    def reason_of(self, shard_id: ShardId) -> Reason:
        shard = self.image.shards.get(shard_id)
        return Reason.PLACED if shard is None else shard.reason

    def planned(self, shard_id: ShardId) -> Shard:
        """Return a shard with the replicas of its step in this draft, if it has one."""
        shard, step = self.image.shards[shard_id], self._steps.get(shard_id)
        return shard if step is None else replace(shard, replicas=step.replicas)

    def is_busy(self, shard_id: ShardId) -> bool:
        """Return whether a shard has a step that is planned or under way: it gets no other one meanwhile."""
        return shard_id in self._steps or shard_id in self.index.under_way

    def refuse(self, reason: Reason, shard_id: ShardId, why: str) -> Outcome:
        return self._refuse(reason, Refusal(f"shard {shard_id}", f"shard {shard_id}: {why}"))

    def refuse_all(self, reason: Reason, what: str, sentence: str) -> Outcome:
        """Refuse what concerns more than one shard."""
        return self._refuse(reason, Refusal(what, sentence, is_wish=reason >= Reason.LEADER))

    def _refuse(self, reason: Reason, refusal: Refusal) -> Outcome:
        refusals = self._refusals.setdefault(reason, [])
        if len(refusals) < REFUSALS_MAX:
            refusals.append(refusal)
        else:
            self._unnamed[reason] += 1
        return Outcome.REFUSED

    def problem(self, shard: Shard, figures: ShardView | None, leaving: Collection[ReplicaKey]) -> str | None:
        """Return why the members of a shard cannot change now; None if they can.

        `leaving` are the replicas that need not live.  Every other replica must: a copy takes long, and meanwhile the
        shard survives no further failure.
        """
        if figures is None or figures.membership is None:
            return self.untold_problem(shard)
        problem = self.brokers.majority_problem(figures)
        if problem is not None:
            return problem
        absences = (self.brokers.absence(replica) for replica in shard.replicas if replica not in leaving)
        absent = next((absence for absence in absences if absence is not None), None)
        return None if absent is None else f"{absent}; its other replicas stay where they are until it is back or gone"

    def untold_problem(self, shard: Shard, so_far: str = "yet") -> str:
        """Return what is known of a shard whose members no leader has told, and what an operator can do about it."""
        lost = self.brokers.planned_majority_problem(shard)
        if lost is None:
            former = self.brokers.former_majority_problem(shard)
            lost = None if former is None else f"if its last move has not ended, {former}"
        lost = lost or "if that lasts, a majority of its replicas may have lost its disk"
        return f"no leader has told its members and figures {so_far}; {lost}"

    def may_copy(self, figures: ShardView) -> bool:
        """Return whether the limits allow a shard's leader to send one more copy."""
        return not self.is_full and self.accounts.outgoing[sender(figures)] < self.policy.broker_moves_max

    def move(
        self, shard: Shard, source: ReplicaKey, reason: Reason, why: str, *, on_rack_max: int | None = None
    ) -> Outcome:
        """Plan to move one replica of a shard that is not busy from `source` to the best broker, or say why not.

        With `on_rack_max`, the broker's rack has at most that many of the other replicas.
        """
        figures = self.view.shards.get(shard.shard_id)
        problem = self.problem(shard, figures, (source,))
        if problem is not None or figures is None:
            return self.refuse(reason, shard.shard_id, f"{why}; {problem}")
        if not self.may_copy(figures):
            self.waiting[reason] += 1
            return Outcome.WAITS
        staying = [replica for replica in shard.replicas if replica != source]
        choice = self.targets.choose(
            staying,
            figures.size,
            without=(source.broker_id,),
            on_rack_max=on_rack_max,
            waits_for_rack=reason is not Reason.DISK,  # a disk that is too full soon refuses writes
        )
        self.work.add(choice.looked_at)
        if choice.chosen is not None:
            self.step(shard, figures, {source: choice.chosen}, reason, why)
            return Outcome.PLANNED
        if choice.busy:
            self.waiting[reason] += 1
            return Outcome.WAITS
        if on_rack_max is None and may_shrink(shard, choice):
            self.drop(shard, figures, source, reason, why)
            return Outcome.PLANNED
        if on_rack_max is not None and not choice.full:
            return Outcome.WAITS  # each broker of the other racks has a replica of this shard already
        return self.refuse(
            reason, shard.shard_id, f"{why}; {self.targets.problem(choice, shard.replicas, figures.size)}"
        )

    def step(
        self, shard: Shard, figures: ShardView, substitutes: dict[ReplicaKey, ReplicaKey], reason: Reason, why: str
    ) -> None:
        """Plan the replicas of a shard with each key of `substitutes` replaced by its value, in the same place."""
        assert figures.membership is not None
        replicas = tuple(substitutes.get(replica, replica) for replica in shard.replicas)
        members = figures.membership.members
        copies = [replica for replica in substitutes.values() if replica not in members]
        is_new_copy = bool(copies) and shard.shard_id not in self.index.under_way
        for former, newcomer in substitutes.items():
            for broker_id in (former.broker_id, newcomer.broker_id):
                self.targets.withdraw(broker_id)
            self.accounts.replace(figures, former, newcomer, is_first=former == shard.replicas[0])
            for broker_id in (former.broker_id, newcomer.broker_id):
                self.targets.restore(broker_id)
        if is_new_copy:
            self.accounts.begin_copy(figures)
        to = ", ".join(str(replica.broker_id) for replica in substitutes.values())
        size = figures.size * len(copies)
        racks = [self.brokers.racks.of.get(replica.broker_id) for replica in substitutes.values()]
        where = f"; rack {', '.join(map(str, racks))}" if all(rack is not None for rack in racks) else ""
        noun = "broker" if len(substitutes) == 1 else "brokers"
        sentence = f"shard {shard.shard_id} → {noun} {to}: {why}; {size_text(size)}{where}"
        self._steps[shard.shard_id] = Step(shard.shard_id, replicas, reason, size, sentence)

    def drop(self, shard: Shard, figures: ShardView, former: ReplicaKey, reason: Reason, why: str) -> None:
        """Plan the replicas of a shard without one of them."""
        replicas = tuple(replica for replica in shard.replicas if replica != former)
        heir = replicas[0] if former == shard.replicas[0] else None
        changed = {former.broker_id} if heir is None else {former.broker_id, heir.broker_id}
        for broker_id in changed:
            self.targets.withdraw(broker_id)
        self.accounts.drop(figures, former, heir)
        for broker_id in changed:
            self.targets.restore(broker_id)
        sentence = f"shard {shard.shard_id} → without broker {former.broker_id}: {why}; {len(replicas)} replicas stay"
        self._steps[shard.shard_id] = Step(shard.shard_id, replicas, reason, 0, sentence)

    def reorder(self, shard: Shard, first: ReplicaKey, reason: Reason, why: str) -> None:
        """Plan that `first` leads a shard, and that nothing else changes."""
        replicas = (first, *(replica for replica in shard.replicas if replica != first))
        sentence = f"shard {shard.shard_id} → led by broker {first.broker_id}: {why}"
        self._steps[shard.shard_id] = Step(shard.shard_id, replicas, reason, 0, sentence)

    def figures_problem(self, broker_id: BrokerId) -> str | None:
        """Return why a broker's figures do not count for LEADER, COUNT and BYTES; None if they do.

        The figures are averages.  Those from before the end of the last step would move the same load again.
        """
        fresh_at_ms = self.index.step_ended_at_ms(broker_id) + self.policy.figures_after_ms
        broker = self.brokers.known[broker_id]
        if broker.figures_at_ms >= fresh_at_ms:
            return None
        if not broker.figures_at_ms:
            return f"broker {broker_id} has not reported any figures to this controller yet"
        ago = duration(max(0, self.now_ms - self.index.step_ended_at_ms(broker_id)))
        since = "its last step ended" if self.index.has_ended_step(broker_id) else "this controller began"
        wait = duration(self.policy.figures_after_ms)
        return f"the figures of broker {broker_id} are from before {wait} after {since}, {ago} ago"

    def is_measured(self, shard_id: ShardId, figures: ShardView) -> bool:
        """Return whether a shard's own figures are from long enough after its last step."""
        last = self.index.last_step(shard_id)
        if last is None or last[2] is None:
            return last is None
        return figures.figures_at_ms >= last[2] + self.policy.figures_after_ms

    def pause_problem(self, shard_id: ShardId, reasons: tuple[Reason, ...], pause_ms: int) -> str | None:
        """Return why a shard rests after a step for one of `reasons`; None if it does not."""
        last = self.index.last_step(shard_id)
        if last is not None:
            reason, planned_at_ms, ended_at_ms = last
            if ended_at_ms is None:
                return "its last step has not ended"
            if reason in reasons and planned_at_ms > self.now_ms - pause_ms:
                return f"moved within the last {duration(pause_ms)}"
        elif self.reason_of(shard_id) in reasons and self.index.began_at_ms > self.now_ms - pause_ms:
            return f"may have moved within the last {duration(pause_ms)}"
        return None


def begin_draft(
    image: ClusterImage, view: View, policy: Policy, now_ms: int, index: ShardIndex, brokers: BrokerSet
) -> Slices[Draft]:
    """Return an empty draft whose accounts have what is under way."""
    accounts, work = Accounts(brokers, index, policy), Work()
    yield
    for shard_id in index.under_way:
        shard, figures = image.shards.get(shard_id), view.shards.get(shard_id)
        if shard is not None and figures is not None and figures.membership is not None:
            accounts.count_under_way(shard, figures)
        if work.fills_slice(2):
            yield
    return Draft(image, view, policy, now_ms, index, brokers, accounts)


def may_shrink(shard: Shard, choice: Choice) -> bool:
    """Return whether a shard for whose replica no broker is left may do without it.

    The metadata has up to five replicas, on whatever brokers there are: no user has asked for that number, and
    otherwise no broker could leave a cluster of five.
    """
    is_big = shard.shard_id == METADATA_SHARD and len(shard.replicas) > METADATA_REPLICAS_MIN
    return is_big and choice.chosen is None and not choice.full and not choice.busy


def replica_on(shard: Shard, broker_id: BrokerId) -> ReplicaKey:
    """Return the planned replica of a shard on a broker that carries one."""
    return next(replica for replica in shard.replicas if replica.broker_id == broker_id)
