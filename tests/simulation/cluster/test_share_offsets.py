"""The offsets of share groups on simulated brokers: what is answered as set or deleted is what is described."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pytest

from tests.simulation.cluster.share_seeds import OFFSET
from tests.simulation.planted_bugs import find_planted_bug
from tidemill.broker.shares import share_resets
from tidemill.broker.shares.share_host import ShareHost
from tidemill.broker.shares.share_openings import shares_of
from tidemill.broker.shares.share_resets import Outcome, ShareResets
from tidemill.share.share_row import OpenShare
from tidemill.simulation.clients.offset_administrator import OffsetAdministrator
from tidemill.simulation.cluster.cluster import TOPIC, ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation

MUTANT_SEEDS = range(40)
GROUP: Final = "administered"
NEEDED: Final = ("alter done", "alter unknown", "delete done", "delete group done", "described")


class OffsetRun(ClusterRun):
    """Checks every described start, and at the end that all replicas have the one that was set last."""

    def __init__(self, seed: int, knobs: ClusterKnobs) -> None:
        self.administrators: list[OffsetAdministrator] = []
        super().__init__(seed, knobs)
        agree = self.check.agree
        self.check.agree = partial(self._agree, agree)  # type: ignore[method-assign]

    async def _prepare(self) -> None:
        await super()._prepare()
        for number in range(self.knobs.partitions):
            client = self._new_client(f"offsets-{number}")
            self.administrators.append(OffsetAdministrator(client, f"{GROUP}-{number}", TOPIC, number))
            self._in_client(self.administrators[-1].run())

    def _agree(self, agree: Any) -> bool:
        for administrator in self.administrators:
            administrator.is_stopping = True
        if not all(it.has_finished for it in self.administrators) or not agree():
            return False
        for number in range(self.knobs.partitions):
            starts = set()
            for machine in self.machines:
                assert machine.broker is not None
                partition = machine.broker.shard_table.partition(TOPIC, number)
                if partition is not None:
                    share = shares_of(partition).of_group(f"{GROUP}-{number}")
                    starts.add(None if share is None else share.start)
            if len(starts) > 1:
                raise InvariantViolation(f"partition {number}: the replicas have the starts {starts}")
        return True


def offset_run(seed: int) -> OffsetRun:
    """Return a short run of three brokers whose leaders change often, and whose processes end."""
    drawn = ClusterKnobs.draw(Random(seed), 3).without_faults()
    faults = replace(drawn, kill=0.3, pause=0.1, partition=0.2, leader_isolation=1.0, transfer_leadership=0.3)
    return OffsetRun(seed, replace(faults, duration_s=4, partitions=2, producers=1, pause_s=0.05))


@pytest.mark.timeout(7200)
def test_offsets_are_those_that_were_set_last(explored: list[str]) -> None:
    """
    After an answered AlterShareGroupOffsets, DeleteShareGroupOffsets or DeleteGroups, the described start is the new
    one, or that of a request whose outcome the administrator does not know; and in the end, all replicas have the same
    start.
    """
    outcomes: Counter[str] = Counter()

    for seed in OFFSET:
        run = offset_run(seed)
        run.run()
        for administrator in run.administrators:
            outcomes += administrator.outcomes

    assert min(outcomes[name] for name in NEEDED) > 0, outcomes
    explored.append(f"Offsets of share groups: {len(OFFSET)} seeds, {dict(outcomes)}")


@contextmanager
def resets_before_the_commit() -> Iterator[None]:
    """Answer a reset when it is proposed."""
    reset = ShareResets._reset

    def eager(self: Any, group: str, asked: Any, then: Any) -> None:
        reset(self, group, asked, lambda _: None)
        then(Outcome())

    with patch.object(ShareResets, "_reset", eager):
        yield


@contextmanager
def resets_with_one_state_epoch() -> Iterator[None]:
    """Propose every reset with the first state epoch, so that all but the first one have no effect."""

    def first(**fields: Any) -> OpenShare:
        return OpenShare(**{**fields, "state_epoch": 1})

    with patch.object(share_resets, "OpenShare", first):
        yield


@contextmanager
def closes_later_incarnations() -> Iterator[None]:
    """Let the close of a deleted group remove the share of the group that was created after it."""
    close = ShareHost._close

    def closes_all(self: Any, key: Any, incarnation: int, then: Any) -> None:
        close(self, key, (1 << 63) - 1, then)

    with patch.object(ShareHost, "_close", closes_all):
        yield


@pytest.mark.parametrize("planted", [resets_before_the_commit, resets_with_one_state_epoch, closes_later_incarnations])
def test_a_planted_bug_is_found(planted: Any, explored: list[str]) -> None:
    """
    The simulation detects each planted bug with one of the first seeds.
    """
    name = f"Offsets of share groups, {planted.__name__}"
    found = find_planted_bug(name, planted, lambda seed: offset_run(seed).run(), MUTANT_SEEDS, is_controlled=True)
    explored.append(found)
