"""Runs complete brokers from seeds.  The runs must pass with the real code, and must find planted bugs.

`TIDEMILL_CLUSTER_SEEDS=1000` runs a thousand seeds, as `make soak` does.
"""

import os
import time
from collections import Counter
from random import Random
from types import ModuleType
from unittest.mock import patch

import pytest

from tests.simulation.cluster.cluster_mutants import MUTANTS, ClusterMutant
from tests.simulation.cluster.fault_counts import LOTS, note
from tests.simulation.hash_seeds import outputs_under_two_hash_seeds
from tests.simulation.planted_bugs import find_planted_bug
from tidemill.broker.handlers import produce
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.journal import block
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.recovery import JournalDamaged

ASKED = os.environ.get("TIDEMILL_CLUSTER_SEEDS")
ALONE = int(ASKED or "16")
# The number of runs with several brokers.  They take their numbers of brokers from SEVERAL in turn, so four fifths of
# them, as many as were asked for, have at least three brokers.
TOGETHER = -(-int(ASKED or "30") * 5 // 4)
SEVERAL = (2, 3, 3, 3, 5)
# Seeds that once found bugs, each with its number of brokers.  With seed 1043, a learner and then a voter lost their
# disks, and the leader promoted the learner.
FOUND = ((1043, 5),)
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
    """One broker keeps every acknowledged record, once and in order, despite kills, power losses, incorrect clocks and
    failing disks.
    """
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
    """A cluster keeps every acknowledged record despite the same faults and network partitions; its replicas agree, and
    each term has at most one leader.
    """
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


@pytest.mark.parametrize(("seed", "brokers"), FOUND)
def test_a_seed_that_found_a_bug_passes(seed: int, brokers: int) -> None:
    """Runs that once found a bug now pass."""
    run_of(seed, brokers).run()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_run_finds_a_planted_bug(mutant: ClusterMutant, explored: list[str]) -> None:
    """Random runs find each planted bug; a simulation that misses planted bugs would miss real ones."""

    def run(seed: int) -> None:
        ClusterRun(seed, mutant.adapt(ClusterKnobs.draw(Random(seed), mutant.brokers))).run()

    errors = (AssertionError, DirectoryProblem, JournalDamaged, SegmentDamaged)
    name, seeds = f"Cluster mutant, {mutant.name}", range(mutant.seeds_max)
    explored.append(find_planted_bug(name, mutant.planted, run, seeds, errors, is_controlled=True))


@pytest.mark.parametrize(
    ("module", "function"), [(block, "write_block"), (produce, "append_batch")], ids=["in a job", "in a request"]
)
def test_an_unexpected_error_of_a_broker_ends_the_run(module: ModuleType, function: str) -> None:
    """
    An error that is not a disk fault is a bug, so it ends the run; the run does not continue without the broker or the
    request.
    """
    with patch.object(module, function, side_effect=KeyError("a bug")), pytest.raises(KeyError, match="a bug"):
        run_of(1, 1).run()


def test_a_seed_gives_the_same_run_under_any_hash_seed() -> None:
    """Under any hash seed, the runs of a seed are identical down to the last byte on the network, so a reported seed
    can be repeated.
    """
    digests = outputs_under_two_hash_seeds(RUN)

    assert len(digests) == 1
    assert next(iter(digests)).strip()
