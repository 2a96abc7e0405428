"""Simulated clusters heal themselves: brokers join, die for good, are drained, and come back, under all faults.

`TIDEMILL_HEALING_SEEDS=5000` simulates 5,000 runs instead of 40, as `make soak` does.  One run of nine lasts long;
the others are brief.
"""

import os
from collections import Counter
from typing import Final

import pytest

from tests.simulation.cluster.brief_knobs import is_brief
from tests.simulation.cluster.healing_run import brief_healing_run, healing_run
from tests.simulation.cluster.moving_run import asking_often

RUNS: Final = int(os.environ.get("TIDEMILL_HEALING_SEEDS", "40"))
LOTS: Final = 2  # the seeds are divided among this many tests, so that all cores are used


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("lot", range(LOTS))
def test_a_cluster_heals_itself(lot: int, explored: list[str]) -> None:
    """
    Each acknowledged record is read once and in order, while brokers come and go.  In the end, every replica is on a
    broker that is there, drained brokers are empty or lead nothing, and no file of a former replica is left.
    """
    happened: Counter[str] = Counter()
    for seed in range(lot, RUNS, LOTS):
        run = brief_healing_run(seed) if is_brief(seed) else healing_run(seed)
        run.run()
        happened += run.happened

    explored.append(f"Healing, lot {lot}: {dict(happened)}")
    assert happened["joined"] + happened["died"]


@pytest.mark.parametrize("seed", [4, 12], ids=["a drain before registration", "the metadata of five"])
def test_a_seed_that_found_a_bug_passes(seed: int) -> None:
    healing_run(seed).run()


@pytest.mark.parametrize(
    "seed",
    [1486, 1540, 2380, 3190],
    ids=["two drained", "three drained", "all of a shard drained", "an empty one lost"],
)
def test_a_brief_seed_that_found_a_bug_passes(seed: int) -> None:
    """
    Brokers that were drained of their leaders could have replaced a lost one, and nothing named them; and a shard whose
    brokers were all drained was expected to have no leader.
    """
    with asking_often():
        brief_healing_run(seed).run()
