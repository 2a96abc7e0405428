"""Shards that move between simulated brokers keep every acknowledged record, and leave nothing behind.

`TIDEMILL_MOVING_SEEDS=5000` simulates 5,000 runs instead of 100, and 300 of each focus instead of 6, as `make soak`
does.  One run of nine lasts long; the others are brief.
"""

import os
from collections import Counter
from typing import Final

import pytest

from tests.simulation.cluster.brief_knobs import is_brief
from tests.simulation.cluster.contended_run import ContendedRun, Focus
from tests.simulation.cluster.moving_mutants import MUTANTS, MovingMutant
from tests.simulation.cluster.moving_run import asking_often, brief_moving_run, moving_run
from tests.simulation.planted_bugs import find_planted_bug

RUNS: Final = int(os.environ.get("TIDEMILL_MOVING_SEEDS", "100"))
LOTS: Final = 4  # the seeds are divided among this many tests, so that all cores are used
BROKERS: Final = (3, 4, 5)
FOCUS_SEEDS: Final = range(max(3 * RUNS // 50, 2))
MUTANT_SEEDS: Final = range(20)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lot", range(LOTS))
def test_moving_shards_keep_their_promises(lot: int, explored: list[str]) -> None:
    """
    Each acknowledged record is read once and in order, each term has one leader, and replicas agree, while plans change
    and are withdrawn under all faults.  In the end, exactly the planned brokers have a replica.
    """
    happened: Counter[str] = Counter()
    with asking_often():
        for seed in range(RUNS)[lot::LOTS]:
            run = brief_moving_run(seed) if is_brief(seed) else moving_run(seed, BROKERS[seed % len(BROKERS)])
            run.run()
            happened += run.happened

    explored.append(f"Moves, lot {lot}: {dict(happened)}")
    assert {"planned", "released", "opened again"} <= happened.keys()


@pytest.mark.parametrize(("seed", "brokers"), [(12, 3), (31, 4)], ids=["a stale vote", "an empty learner"])
def test_a_seed_that_found_a_bug_passes(seed: int, brokers: int) -> None:
    """
    A candidate that had been removed won with the vote of a replica that had come back empty; and a learner without an
    entry was promoted.
    """
    with asking_often():
        moving_run(seed, brokers).run()


def test_a_brief_seed_that_lost_a_disk_on_the_way_to_one_replica_passes() -> None:
    """The shard could not come to that, because the second of its last two voters was lost."""
    with asking_often():
        brief_moving_run(2136).run()


def test_a_seed_that_found_damage_passes() -> None:
    """A checkpoint freed batches of a shard whose CLOSED row waited; after a power loss, its segment was too short."""
    ContendedRun(0, Focus.CLOSING_WAITS).run()


def test_a_seed_that_found_a_missing_segment_passes() -> None:
    """A checkpoint had entries that were only queued when their shard was closed, and that no block ever had."""
    with asking_often():
        ContendedRun(9170, Focus.CLOSING_WAITS).run()


def test_a_brief_seed_that_lost_a_voter_to_an_old_release_passes() -> None:
    """The entry with which the same leader had added the replica again was no longer in memory."""
    ContendedRun(5171, Focus.OLD_RELEASE, is_brief=True).run()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("focus", Focus, ids=lambda focus: focus.name)
def test_contended_shards_keep_their_promises(focus: Focus, explored: list[str]) -> None:
    """A replica leaves, comes back, and meets what the rules of moving shards protect it against."""
    happened: Counter[str] = Counter()
    for seed in FOCUS_SEEDS:
        run = ContendedRun(seed, focus, is_brief=is_brief(seed))
        run.run()
        happened += run.happened

    explored.append(f"Moves, {focus.name}: {dict(happened)}")
    assert focus.name in happened


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.planted.__name__)
def test_a_planted_bug_is_found(mutant: MovingMutant, explored: list[str]) -> None:
    """
    The simulation finds each planted bug, with the seed that has found it before, or with one of the first seeds.  The
    runs of contended shards find nothing with that seed, without the bug.
    """

    name, errors = f"Moves, {mutant.planted.__name__}", (AssertionError, ExceptionGroup)
    seeds = mutant.seed, *MUTANT_SEEDS

    def run(seed: int) -> None:
        ContendedRun(seed, mutant.focus, is_brief=True).run()

    assert mutant.seed in FOCUS_SEEDS
    explored.append(find_planted_bug(name, mutant.planted, run, seeds, errors))
