"""Whole brokers from a seed; and the bugs that such runs must find.

`TIDEMILL_CLUSTER_SEEDS=1000` runs so many, as `make soak` does.
"""

import os
import subprocess
import sys
import time
from random import Random

import pytest

from tests.simulation.cluster.cluster_mutants import MUTANTS, ClusterMutant
from tidemill.simulation.cluster import ClusterRun
from tidemill.simulation.cluster_knobs import ClusterKnobs

SEEDS = int(os.environ.get("TIDEMILL_CLUSTER_SEEDS", "20"))
LOTS = 4  # of seeds, so that a failure is told soon
RUN = """
from random import Random
from tidemill.simulation.cluster import ClusterRun
from tidemill.simulation.cluster_knobs import ClusterKnobs
for seed in (5, 12):
    run = ClusterRun(seed, ClusterKnobs.draw(Random(seed), 1))
    run.run()
    print(seed, run.digest)
"""


def one_broker(seed: int) -> ClusterRun:
    return ClusterRun(seed, ClusterKnobs.draw(Random(seed), 1))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lot", range(LOTS))
def test_a_broker_keeps_what_it_promises(lot: int, explored: list[str]) -> None:
    """
    Through kills, power losses, wrong clocks and bad disks: what was acknowledged is there, once and in order.
    """
    began = time.perf_counter()
    starts = acknowledged = 0

    for seed in range(lot, SEEDS, LOTS):
        run = one_broker(seed)
        run.run()
        starts += run.machines[0].starts
        acknowledged += run.history.acknowledgements

    assert acknowledged > SEEDS
    explored.append(
        f"One broker, lot {lot}: {len(range(lot, SEEDS, LOTS))} seeds, {starts} starts, {acknowledged} records "
        f"acknowledged, {time.perf_counter() - began:.0f} s"
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_run_finds_a_planted_bug(mutant: ClusterMutant, explored: list[str]) -> None:
    """
    Else it would find none that nobody planted.
    """
    for seed in range(mutant.seeds_max):
        with mutant.planted():
            try:
                ClusterRun(seed, ClusterKnobs.draw(Random(seed), mutant.brokers)).run()
            except mutant.found_as as broken:
                explored.append(f"Cluster mutant, {mutant.name}: seed {seed}: {str(broken)[:90]}")
                return
    raise AssertionError(f"{mutant.name}: not found in {mutant.seeds_max} seeds")


def test_the_same_seed_is_the_same_run_whatever_hashes_are() -> None:
    """
    Down to the last byte on the network: a seed in a report can be run again.
    """
    digests = {
        subprocess.run(
            [sys.executable, "-c", RUN],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }

    assert len(digests) == 1
    assert next(iter(digests)).strip()
