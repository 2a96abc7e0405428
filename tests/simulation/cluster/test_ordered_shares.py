"""Ordered and exclusive share groups on simulated brokers: what is in flight, and that everything is finished."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.cluster.ordered_share_run import BY_KEY, BY_KEY_WAITING, BY_PARTITION, EXCLUSIVE, ordered_run
from tests.simulation.cluster.share_run import with_share_settings
from tests.simulation.cluster.share_seeds import ORDERED
from tests.simulation.planted_bugs import find_planted_bug
from tidemill.share.active_member import ActiveMember
from tidemill.share.availability import Availability
from tidemill.share.interval_map import Interval
from tidemill.share.leases import Leases
from tidemill.share.look_ahead import LookAhead
from tidemill.share.record_status import RecordState
from tidemill.share.share import Share

MUTANT_SEEDS = range(40)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("settings", [BY_KEY, BY_KEY_WAITING, BY_PARTITION, EXCLUSIVE], ids=str)
def test_an_order_holds_in_every_term(settings: Mapping[str, str], explored: list[str]) -> None:
    """
    On every leader and after every turn, only what the order permits is in flight; members receive the records of a key
    in the order of their offsets; and in the end every record is finished.
    """
    deliveries = changes = compared = 0
    with with_share_settings():
        for seed in ORDERED:
            run = ordered_run(seed, settings)
            run.run()
            deliveries += run.shared.deliveries
            changes += run.changes
            compared += run.compared

    assert compared >= len(ORDERED)
    explored.append(f"Shares with {dict(settings)}: {len(ORDERED)} seeds, {deliveries} deliveries, {changes} changes")


def test_fetches_may_wait_at_a_broker_that_does_not_tick() -> None:
    """With seed 85, a broker does not tick for a second after a pause, and the check of lost wakes misfired."""
    with with_share_settings():
        ordered_run(85, BY_KEY).run()


@contextmanager
def ignores_the_keys() -> Iterator[None]:
    with patch.object(LookAhead, "next_free", lambda self, first, end: (first, end) if first < end else None):
        yield


@contextmanager
def unblocks_before_the_commit() -> Iterator[None]:
    """Deliver the next record of a key while the acceptance of the one before it is not committed."""
    acknowledge = Leases.acknowledge

    def eager(self: Any, member: str, ranges: Any, *, now: int, wall: int) -> Any:
        decided = acknowledge(self, member, ranges, now=now, wall=wall)
        for run in decided:
            self.availability.look_ahead.finish(run.first, run.end)
        return decided

    with patch.object(Leases, "acknowledge", eager):
        yield


@contextmanager
def released_records_do_not_block() -> Iterator[None]:
    """Let the next record of a key pass one that was released."""
    committed = Leases.committed

    def lax(self: Any, runs: Any) -> None:
        runs = list(runs)
        committed(self, runs)
        for run in runs:
            self.availability.look_ahead.finish(run.first, run.end)

    with patch.object(Leases, "committed", lax):
        yield


@contextmanager
def a_new_leader_forgets_redeliveries() -> Iterator[None]:
    """Open only records that were never delivered."""

    def unfinished(self: Any, first: int, end: int) -> Iterator[tuple[int, int]]:
        while first < end:
            run = self.runs.at(first, end)
            if run.value.state == RecordState.AVAILABLE and not run.value.delivery_count:
                yield first, run.end
            first = run.end

    with patch.object(Share, "unfinished", unfinished):
        yield


@contextmanager
def finished_records_block() -> Iterator[None]:
    with patch.object(LookAhead, "finish", lambda self, first, end: None):
        yield


@contextmanager
def does_not_wait_at_failover() -> Iterator[None]:
    with patch.object(Leases, "resume_at", property(lambda self: None, lambda self, time: None), create=True):
        yield


@contextmanager
def does_not_wait_for_what_is_held() -> Iterator[None]:
    with patch.object(Availability, "_waits_for_all", lambda self: False):
        yield


@contextmanager
def passes_a_record_in_flight() -> Iterator[None]:
    """Acquire later records although an earlier one is in flight."""

    def find(self: Any, offset: int, end: int, wall: int) -> Interval[int] | None:
        found: Interval[int] | None = self.find(max(offset, self._share.start), end, wall)
        return found

    with does_not_wait_for_what_is_held(), patch.object(Availability, "_find_in_order", find):
        yield


@contextmanager
def admits_every_member() -> Iterator[None]:
    with patch.object(Leases, "admits", lambda self, member: True):
        yield


@contextmanager
def never_replaces_a_member() -> Iterator[None]:
    """Keep the active member when it leaves, loses a lock, or is silent."""

    def is_silent(self: Any, *, is_idle: bool, now: int, patience_ms: int) -> bool:
        return False

    with (
        patch.object(ActiveMember, "failed", lambda self, member: None),
        patch.object(ActiveMember, "is_silent", is_silent),
    ):
        yield


@pytest.mark.parametrize(
    ("planted", "settings", "first_seed"),
    [
        (ignores_the_keys, BY_KEY, 0),
        (unblocks_before_the_commit, BY_KEY, 0),
        (released_records_do_not_block, BY_KEY, 0),
        (a_new_leader_forgets_redeliveries, BY_KEY, 0),
        (finished_records_block, BY_KEY, 0),
        (does_not_wait_at_failover, BY_KEY_WAITING, 0),
        (does_not_wait_for_what_is_held, BY_PARTITION, 20),
        (passes_a_record_in_flight, BY_PARTITION, 0),
        (admits_every_member, EXCLUSIVE, 0),
        (never_replaces_a_member, EXCLUSIVE, 15),
    ],
)
def test_a_planted_bug_is_found(
    planted: Any, settings: Mapping[str, str], first_seed: int, explored: list[str]
) -> None:
    """
    The simulation detects each planted bug with one of the first seeds.  `first_seed` is tried first, to save time: it
    has found the bug before.
    """

    def run(seed: int) -> None:
        with with_share_settings():
            ordered_run(seed, settings).run()

    name = f"Ordered shares, {planted.__name__}"
    explored.append(find_planted_bug(name, planted, run, (first_seed, *MUTANT_SEEDS)))
