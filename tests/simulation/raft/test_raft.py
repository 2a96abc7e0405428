"""Many random runs of one shard's replicas, and the planted bugs that they, or a transcript, must find.

`TIDEMILL_RAFT_SEEDS=20000` runs that many seeds, as `make soak` does.
"""

import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.simulation.hash_seeds import outputs_under_two_hash_seeds
from tests.simulation.raft.raft_mutants import BY_RANDOM_RUNS, BY_TRANSCRIPT, RaftMutant
from tests.unit.raft.transcript import Transcript
from tidemill.simulation.shard.shard_knobs import ShardKnobs
from tidemill.simulation.shard.shard_simulation import ShardSimulation

SEEDS = int(os.environ.get("TIDEMILL_RAFT_SEEDS", "300"))
LOTS = 6  # of seeds, so that a failure is reported early
SEEDS_THAT_FOUND_BUGS = (435,)  # a majority was damaged: a disk had a membership that no memory had
RUN = """
from tidemill.simulation.shard.shard_simulation import ShardSimulation
for seed in (7, 11):
    run = ShardSimulation(seed)
    run.run()
    check = run.check
    print(seed, run.world.events, run.world.now_ms, sorted(check.acknowledged.items()), sorted(check.committed.items()))
"""
SCENARIOS = Path(__file__).parents[2] / "scenarios" / "raft"


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lot", range(LOTS))
def test_random_runs_keep_the_invariants(lot: int, explored: list[str]) -> None:
    """No acknowledged entry is lost, no two replicas commit different entries, and the healed nodes agree."""
    began = time.perf_counter()
    events = acknowledged = 0

    for seed in range(lot, SEEDS, LOTS):
        run = ShardSimulation(seed)
        run.run()
        events += run.world.events
        acknowledged += len(run.check.acknowledged)

    assert acknowledged > SEEDS
    seconds = time.perf_counter() - began
    explored.append(
        f"Raft, lot {lot}: {len(range(lot, SEEDS, LOTS))} seeds, {events} events, {acknowledged} acknowledged, "
        f"{seconds:.0f} s"
    )


@pytest.mark.parametrize("seed", SEEDS_THAT_FOUND_BUGS)
def test_a_seed_that_found_a_bug_passes(seed: int) -> None:
    """The bug that it found is fixed."""
    ShardSimulation(seed).run()


@pytest.mark.parametrize("mutant", BY_RANDOM_RUNS, ids=lambda mutant: mutant.name)
def test_random_runs_find_a_planted_bug(mutant: RaftMutant, explored: list[str]) -> None:
    """A simulation that misses planted bugs would miss real ones."""
    for seed in range(mutant.seeds_max):
        knobs = None if mutant.adapt is None else mutant.adapt(ShardKnobs.draw(Random(seed)))
        with mutant.planted():
            try:
                ShardSimulation(seed, knobs).run()
            except AssertionError as broken:
                explored.append(f"Raft mutant, {mutant.name}: seed {seed}: {str(broken)[:90]}")
                return
    raise AssertionError(f"{mutant.name}: not found in {mutant.seeds_max} seeds")


@pytest.mark.parametrize("mutant", BY_TRANSCRIPT, ids=lambda mutant: mutant.name)
def test_a_transcript_finds_a_planted_bug(mutant: RaftMutant) -> None:
    """Random runs would need luck to find these bugs."""
    path = SCENARIOS / mutant.transcript

    with mutant.planted(), pytest.raises(AssertionError, match=path.name):
        Transcript().run(path)


def test_a_seed_gives_the_same_run_under_any_hash_seed() -> None:
    """The runs are equal down to the last event, so that a reported seed can be run again."""
    digests = outputs_under_two_hash_seeds(RUN)

    assert len(digests) == 1
    assert next(iter(digests)).strip()
