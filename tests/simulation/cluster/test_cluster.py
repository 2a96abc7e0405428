"""Whole brokers from a seed, and the planted bugs that such runs must find.

`TIDEMILL_CLUSTER_SEEDS=1000` runs a thousand seeds, as `make soak` does.
"""

import os
import time
from collections import Counter
from random import Random

import pytest

from tests.simulation.cluster.cluster_mutants import MUTANTS, ClusterMutant
from tests.simulation.cluster.fault_counts import LOTS, note
from tests.simulation.hash_seeds import outputs_under_two_hash_seeds
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.recovery import JournalDamaged

ASKED = os.environ.get("TIDEMILL_CLUSTER_SEEDS")
ALONE = int(ASKED or "16")
TOGETHER = -(-int(ASKED or "30") * 5 // 4)  # this many runs have three brokers or more
SEVERAL = (2, 3, 3, 3, 5)
RUN = """
from random import Random
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
for seed, brokers in ((5, 1), (12, 1), (3, 3)):
    run = ClusterRun(seed, ClusterKnobs.draw(Random(seed), brokers))
    run.run()
    print(seed, run.digest, run.faults.happened)
"""


def run_of(seed: int, brokers: int) -> ClusterRun:
    return ClusterRun(seed, ClusterKnobs.draw(Random(seed), brokers))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lot", range(LOTS))
def test_one_broker_keeps_its_promises(lot: int, explored: list[str], met: Counter[str]) -> None:
    """Kills, power losses, wrong clocks and bad disks: every acknowledged record is there, once and in order."""
    began = time.perf_counter()
    met["lots"] += 1
    starts = acknowledged = 0

    for seed in range(lot, ALONE, LOTS):
        run = run_of(seed, 1)
        run.run()
        note(met, run)
        starts += run.machines[0].starts
        acknowledged += run.history.acknowledgements

    assert acknowledged > ALONE
    explored.append(
        f"One broker, lot {lot}: {len(range(lot, ALONE, LOTS))} seeds, {starts} starts, {acknowledged} records "
        f"acknowledged, {time.perf_counter() - began:.0f} s"
    )


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lot", range(LOTS))
def test_a_cluster_keeps_its_promises(lot: int, explored: list[str], met: Counter[str]) -> None:
    """The same with elections and network partitions: replicas agree, and each term has one leader."""
    began = time.perf_counter()
    met["lots"] += 1
    starts = acknowledged = 0

    for seed in range(lot, TOGETHER, LOTS):
        run = run_of(seed, SEVERAL[seed % len(SEVERAL)])
        run.run()
        note(met, run)
        starts += sum(machine.starts for machine in run.machines)
        acknowledged += run.history.acknowledgements

    assert acknowledged > TOGETHER
    explored.append(
        f"Clusters, lot {lot}: {len(range(lot, TOGETHER, LOTS))} seeds, {starts} starts, {acknowledged} records "
        f"acknowledged, {time.perf_counter() - began:.0f} s"
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_run_finds_a_planted_bug(mutant: ClusterMutant, explored: list[str]) -> None:
    """A simulation that misses planted bugs would miss real ones."""
    for seed in range(mutant.seeds_max):
        with mutant.planted():
            try:
                ClusterRun(seed, mutant.adapt(ClusterKnobs.draw(Random(seed), mutant.brokers))).run()
            except (AssertionError, DirectoryProblem, JournalDamaged, SegmentDamaged) as broken:
                explored.append(f"Cluster mutant, {mutant.name}: seed {seed}: {str(broken)[:90]}")
                return
    raise AssertionError(f"{mutant.name}: not found in {mutant.seeds_max} seeds")


def test_a_seed_gives_the_same_run_under_any_hash_seed() -> None:
    """The runs are equal down to the last byte on the network, so that a reported seed can be run again."""
    digests = outputs_under_two_hash_seeds(RUN)

    assert len(digests) == 1
    assert next(iter(digests)).strip()
