"""Plants bugs in re-placement; the simulated clusters that heal themselves must find them.

Rules of `docs/rebalance.md` whose absence no simulation of this size finds have unit tests in `tests/unit/rebalance`:
many silent brokers, majorities, unknown figures, accounts after all steps, fresh figures, returns in time, full
newcomers, throttles.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import PropertyMock, patch

from tests.simulation.cluster.healing_run import BadLinksRun, HealingRun, healing_run
from tidemill.broker.controller.broker_watch import BrokerWatch
from tidemill.broker.leadership.drain_leadership import DrainLeadership
from tidemill.model.broker_state import Presence
from tidemill.rebalance import broker_set, draft, repairs


@dataclass(frozen=True, slots=True)
class HealingMutant:
    planted: Callable[[], AbstractContextManager[None]]
    seed: int  # that has found it
    run: Callable[[int], HealingRun] = healing_run


@contextmanager
def hears_only_for_itself() -> Iterator[None]:
    def heard_by(self: Any, image: Any) -> dict[Any, int]:
        live = self._cluster.live()
        return {broker_id: int(broker_id in live) for broker_id in image.brokers}

    with patch.object(BrokerWatch, "_heard_by", heard_by):
        yield


@contextmanager
def drained_brokers_lead() -> Iterator[None]:
    with patch.object(DrainLeadership, "_is_drained", PropertyMock(return_value=False)):
        yield


@contextmanager
def drained_brokers_take_replicas() -> Iterator[None]:
    def is_target(broker: Any) -> bool:
        return broker.presence is Presence.ACTIVE and broker.is_live

    with patch.object(broker_set, "is_target", is_target):
        yield


@contextmanager
def lost_replicas_stay() -> Iterator[None]:
    with patch.object(repairs, "_lost", lambda *_: {}):
        yield


@contextmanager
def the_metadata_keeps_five_replicas() -> Iterator[None]:
    with patch.object(draft, "may_shrink", lambda *_: False), patch.object(repairs, "may_shrink", lambda *_: False):
        yield


MUTANTS = (
    HealingMutant(hears_only_for_itself, 0, BadLinksRun),
    HealingMutant(drained_brokers_lead, 6),
    HealingMutant(drained_brokers_take_replicas, 27),
    HealingMutant(lost_replicas_stay, 8),
    HealingMutant(the_metadata_keeps_five_replicas, 0),
)
