"""Plants bugs in re-placement: each leaves out a rule of `docs/rebalance.md`, or a part of one.

The directed runs must find them.  One rule is not here: "loads are kept incrementally" is about the time that a
computation takes, and code takes no time in a simulation; `changes_are_not_counted` leaves out that they are kept.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import PropertyMock, patch

from tests.simulation.cluster import rebalance_scripts as scripts
from tests.simulation.cluster.directed_run import Script
from tidemill.broker.controller import operator_commands, rebalance_host
from tidemill.broker.controller.broker_watch import BrokerWatch
from tidemill.broker.controller.operator_commands import OperatorCommands
from tidemill.broker.leadership.drain_leadership import DrainLeadership
from tidemill.broker.maintenance import membership_reconciler
from tidemill.metadata import apply
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD
from tidemill.raft.voters import Membership, step_towards
from tidemill.rebalance import broker_set, draft, pacing, planner, presence, repairs
from tidemill.rebalance.accounts import Accounts
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.draft import Draft
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.silence import Silence


@dataclass(frozen=True, slots=True)
class HealingMutant:
    planted: Callable[[], AbstractContextManager[Any]]
    script: Script
    seed: int = 0  # that has found it


# The states of brokers.


@contextmanager
def hears_only_for_itself() -> Iterator[None]:
    def heard_by(self: Any, image: Any) -> dict[Any, int]:
        live = self._cluster.live()
        return {broker_id: int(broker_id in live) for broker_id in image.brokers}

    with patch.object(BrokerWatch, "_heard_by", heard_by):
        yield


@contextmanager
def one_heartbeat_ends_a_silence() -> Iterator[None]:
    observe = Silence.observe

    def hasty(self: Any, is_live: bool, now_ms: int, *, active_after_ms: int) -> None:
        observe(self, is_live, now_ms, active_after_ms=0)

    with patch.object(Silence, "observe", hasty):
        yield


@contextmanager
def never_stalls() -> Iterator[None]:
    with patch.object(presence, "stall", lambda *_: None), patch.object(planner, "stall", lambda *_: None):
        yield


@contextmanager
def racks_are_no_evidence() -> Iterator[None]:
    stall = presence.stall

    def rackless(image: Any, view: Any, *more: Any) -> str | None:
        brokers = {broker_id: replace(broker, rack=None) for broker_id, broker in view.brokers.items()}
        return stall(image, replace(view, brokers=brokers), *more)

    with patch.object(presence, "stall", rackless), patch.object(planner, "stall", rackless):
        yield


@contextmanager
def drained_brokers_lead() -> Iterator[None]:
    with patch.object(DrainLeadership, "is_drained", PropertyMock(return_value=False)):
        yield


@contextmanager
def registering_ends_a_drain() -> Iterator[None]:
    apply_broker = apply._Draft._apply_broker

    def forgetful(self: Any, record: Any) -> None:
        apply_broker(self, record)
        brokers = self._brokers.mutable()
        brokers[record.broker_id] = replace(brokers[record.broker_id], presence=Presence.ACTIVE, drain=Drain.NONE)

    with patch.object(apply._Draft, "_apply_broker", forgetful):
        yield


@contextmanager
def registering_makes_a_learner_a_voter() -> Iterator[None]:
    apply_broker = apply._Draft._apply_broker

    def promoting(self: Any, record: Any) -> None:
        is_registered_again = record.broker_id in self._brokers.current and bool(record.endpoints)
        apply_broker(self, record)
        metadata = self._shards.current.get(METADATA_SHARD)
        voter = self._brokers.current[record.broker_id].voter
        if is_registered_again and metadata is not None and voter not in metadata.replicas:
            self._shards.mutable()[METADATA_SHARD] = replace(metadata, replicas=(*metadata.replicas, voter))

    with patch.object(apply._Draft, "_apply_broker", promoting):
        yield


# Replacing.


@contextmanager
def lost_replicas_stay() -> Iterator[None]:
    with patch.object(repairs, "_lost", lambda *_: {}):
        yield


@contextmanager
def changes_are_not_counted() -> Iterator[None]:
    with patch.object(ShardIndex, "changed", lambda self, shard_ids: None):
        yield


@contextmanager
def majorities_do_not_matter() -> Iterator[None]:
    with patch.object(BrokerSet, "majority_problem", lambda self, figures: None):
        yield


@contextmanager
def nothing_goes_back() -> Iterator[None]:
    repair = repairs._repair

    def only_lost(it: Draft, shard_id: Any) -> None:
        with patch.object(Draft, "reason_of", lambda self, shard_id: Reason.PLACED):
            repair(it, shard_id)

    with patch.object(repairs, "_repair", only_lost):
        yield


@contextmanager
def everything_goes_back() -> Iterator[None]:
    with patch.object(repairs, "_has_most", lambda *_: False):
        yield


@contextmanager
def gone_brokers_that_are_live_are_replaced() -> Iterator[None]:
    lost = repairs._lost

    def hasty(it: Draft, shard: Any, voters: Any) -> dict[Any, str]:
        known = it.brokers.known
        gone = [key for key in shard.replicas if key.broker_id in known and known[key.broker_id].key == key]
        gone = [key for key in gone if known[key.broker_id].presence is Presence.GONE]
        return {key: it.brokers.text_of_silence(key.broker_id) for key in gone} | lost(it, shard, voters)

    with patch.object(repairs, "_lost", hasty):
        yield


@contextmanager
def copies_without_a_majority_count() -> Iterator[None]:
    count_under_way = Accounts.count_under_way

    def count(self: Any, shard: Any, figures: Any) -> None:
        with patch.object(BrokerSet, "majority_problem", lambda self, figures: None):
            count_under_way(self, shard, figures)

    with patch.object(Accounts, "count_under_way", count):
        yield


def moves_without_a_majority_are_not_named() -> AbstractContextManager[Any]:
    return patch.object(repairs, "_name_who_must_come_back", lambda *_: None)


def shards_without_a_leader_are_not_named() -> AbstractContextManager[Any]:
    return patch.object(repairs, "_name_leaderless", lambda _: iter(()))


def _newcomers_are_well(is_well: Callable[[Any], bool]) -> AbstractContextManager[Any]:
    """Let no newcomer get a substitute whose broker `is_well`, given its view."""
    lost = repairs._lost

    def fewer(it: Draft, shard: Any, voters: Any) -> dict[Any, str]:
        return {
            replica: why
            for replica, why in lost(it, shard, voters).items()
            if replica in voters or not is_well(it.brokers.known[replica.broker_id])
        }

    return patch.object(repairs, "_lost", fewer)


def newcomers_may_be_silent() -> AbstractContextManager[Any]:
    return _newcomers_are_well(lambda broker: broker.presence is Presence.SILENT)


def newcomers_may_be_drained() -> AbstractContextManager[Any]:
    return _newcomers_are_well(lambda broker: broker.drain is Drain.ALL)


def newcomers_may_be_full() -> AbstractContextManager[Any]:
    return _newcomers_are_well(lambda broker: broker.drain is Drain.NONE and broker.presence is Presence.ACTIVE)


# Draining, and one step at a time.


@contextmanager
def drains_are_not_checked() -> Iterator[None]:
    def unchecked(*_: Any) -> Any:
        yield
        return ()

    with patch.object(operator_commands, "check_drain", unchecked):
        yield


@contextmanager
def drains_take_no_turns() -> Iterator[None]:
    def at_once(self: Any, broker_id: Any, drain: Any, *, is_forced: bool = False, is_trial: bool = False) -> Any:
        return self._drain(broker_id, drain, is_forced=is_forced, is_trial=is_trial)

    with patch.object(OperatorCommands, "drain", at_once):
        yield


@contextmanager
def drained_brokers_are_not_named() -> Iterator[None]:
    with patch.object(BrokerSet, "kept_out", lambda self, replicas: []):
        yield


@contextmanager
def the_metadata_keeps_five_replicas() -> Iterator[None]:
    with patch.object(draft, "may_shrink", lambda *_: False), patch.object(repairs, "may_shrink", lambda *_: False):
        yield


@contextmanager
def plans_two_steps_at_once() -> Iterator[None]:
    with patch.object(Draft, "is_busy", lambda self, shard_id: False):
        yield


@contextmanager
def removes_before_it_promotes() -> Iterator[None]:
    def step(membership: Membership, planned: Any, caught_up: Any, *, planned_learners: Any = ()) -> Any:
        staying = tuple(voter for voter in membership.voters if voter in planned)
        if len(staying) == len(membership.voters) or planned_learners:
            return step_towards(membership, planned, caught_up, planned_learners=planned_learners)
        leaving = next(voter for voter in membership.voters if voter not in planned)
        return Membership(tuple(voter for voter in membership.voters if voter != leaving), membership.learners)

    with patch.object(membership_reconciler, "step_towards", step):
        yield


@contextmanager
def other_replicas_may_be_away() -> Iterator[None]:
    with patch.object(BrokerSet, "absence", lambda self, replica: None):
        yield


# Targets.


def _targets(is_target: Callable[[Any], bool]) -> AbstractContextManager[Any]:
    return patch.object(broker_set, "is_target", is_target)


def drained_brokers_take_replicas() -> AbstractContextManager[Any]:
    return _targets(
        lambda it: it.presence is Presence.ACTIVE and it.is_live
    )  # drained ones tell that they are not ready


def unready_brokers_take_replicas() -> AbstractContextManager[Any]:
    return _targets(lambda it: it.presence is Presence.ACTIVE and it.is_live and it.drain is Drain.NONE)


@contextmanager
def unknown_disks_are_empty() -> Iterator[None]:
    has_room = Accounts.has_room

    def hopeful(self: Any, broker_id: Any, broker: Any, size: int) -> bool:
        return broker.disk_used is None or has_room(self, broker_id, broker, size)

    with patch.object(Accounts, "has_room", hopeful):
        yield


# Limits and figures.


@contextmanager
def disks_as_they_are_measured() -> Iterator[None]:
    with patch.object(Accounts, "disk_after", lambda self, broker_id, broker: broker.disk_used):
        yield


@contextmanager
def copies_get_the_limit_only() -> Iterator[None]:
    with patch.object(pacing, "CATCH_UP", 0):
        yield


@contextmanager
def trusts_old_figures() -> Iterator[None]:
    with ExitStack() as patches:
        patches.enter_context(patch.object(Draft, "figures_problem", lambda self, broker_id: None))
        patches.enter_context(patch.object(Draft, "is_measured", lambda self, shard_id, figures: True))
        yield


@contextmanager
def a_drain_ends_all_balance() -> Iterator[None]:
    def unless_drained(balance: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def balanced(it: Draft) -> Any:
            if all(broker.drain is Drain.NONE for broker in it.brokers.known.values()):
                yield from balance(it)

        return balanced

    counts, sizes = unless_drained(planner.balance_counts), unless_drained(planner.balance_bytes)
    with patch.object(planner, "balance_counts", counts), patch.object(planner, "balance_bytes", sizes):
        yield


@contextmanager
def plans_without_figures() -> Iterator[None]:
    decide = rebalance_host.decide

    def at_once(image: Any, view: Any, policy: Any, now_ms: int, index: Any) -> Any:
        return decide(image, view, replace(policy, figures_after_ms=0), now_ms, index)

    with patch.object(rebalance_host, "decide", at_once):
        yield


MUTANTS = (
    HealingMutant(hears_only_for_itself, scripts.BAD_LINKS),
    HealingMutant(one_heartbeat_ends_a_silence, scripts.FLAPPING),
    HealingMutant(never_stalls, scripts.MANY_SILENT),
    HealingMutant(racks_are_no_evidence, scripts.A_RACK_IS_SILENT),
    HealingMutant(drained_brokers_lead, scripts.DRAINING_LEADERS),
    HealingMutant(registering_ends_a_drain, scripts.REGISTERING_AGAIN),
    HealingMutant(registering_makes_a_learner_a_voter, scripts.REGISTERING_AGAIN),
    HealingMutant(lost_replicas_stay, scripts.LOST_FOR_GOOD),
    HealingMutant(changes_are_not_counted, scripts.LOST_FOR_GOOD),
    HealingMutant(majorities_do_not_matter, scripts.LOST_MAJORITY),
    HealingMutant(nothing_goes_back, scripts.BACK_IN_TIME),
    HealingMutant(everything_goes_back, scripts.BACK_LATE),
    HealingMutant(gone_brokers_that_are_live_are_replaced, scripts.GONE_AND_LIVE),
    HealingMutant(copies_without_a_majority_count, scripts.COPY_WITHOUT_A_MAJORITY),
    HealingMutant(moves_without_a_majority_are_not_named, scripts.COPY_WITHOUT_A_MAJORITY),
    HealingMutant(shards_without_a_leader_are_not_named, scripts.NEW_CONTROLLER_WITHOUT_A_MAJORITY),
    HealingMutant(newcomers_may_be_silent, scripts.NEWCOMER_LOST),
    HealingMutant(newcomers_may_be_drained, scripts.NEWCOMER_DRAINED),
    HealingMutant(newcomers_may_be_full, scripts.NEWCOMER_FULL),
    HealingMutant(drains_are_not_checked, scripts.NO_PLACE),
    HealingMutant(drains_take_no_turns, scripts.DRAINS_AT_ONCE),
    HealingMutant(drained_brokers_are_not_named, scripts.MAINTENANCE),
    HealingMutant(plans_two_steps_at_once, scripts.TWO_DRAINS),
    HealingMutant(removes_before_it_promotes, scripts.TWO_DRAINS),
    HealingMutant(the_metadata_keeps_five_replicas, scripts.DRAINING_FIVE),
    HealingMutant(other_replicas_may_be_away, scripts.ANOTHER_REPLICA_IS_AWAY),
    HealingMutant(drained_brokers_take_replicas, scripts.DRAINED_TARGET),
    HealingMutant(unready_brokers_take_replicas, scripts.UNREADY_TARGET),
    HealingMutant(unknown_disks_are_empty, scripts.UNMEASURED_TARGET),
    HealingMutant(disks_as_they_are_measured, scripts.FULL_DISK),
    HealingMutant(copies_get_the_limit_only, scripts.BUSY_SHARD),
    HealingMutant(trusts_old_figures, scripts.HOT_LEADER),
    HealingMutant(a_drain_ends_all_balance, scripts.BALANCE_DURING_A_DRAIN),
    HealingMutant(plans_without_figures, scripts.NEW_CONTROLLER),
)
