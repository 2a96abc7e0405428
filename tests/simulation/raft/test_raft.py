"""Runs the replicas of one shard from many seeds; these runs, or a transcript, must also find planted bugs.

`TIDEMILL_RAFT_SEEDS=20000` runs that many seeds, as `make soak` does.
"""

import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.simulation.hash_seeds import outputs_under_two_hash_seeds
from tests.simulation.planted_bugs import assert_fits
from tests.simulation.raft.raft_mutants import BY_RANDOM_RUNS, BY_TRANSCRIPT, RaftMutant
from tests.unit.raft.transcript import Transcript
from tidemill.simulation.shard.shard_knobs import ShardKnobs
from tidemill.simulation.shard.shard_simulation import ShardSimulation

SEEDS = int(os.environ.get("TIDEMILL_RAFT_SEEDS", "300"))
LOTS = 6  # the seeds are divided into this many tests, so that a failure is reported early
SEEDS_THAT_FOUND_BUGS = (435,)  # a majority was damaged, and the newest membership was only on disk
RUN = """
from tidemill.simulation.shard.shard_simulation import ShardSimulation
for seed in (7, 11):
    run = ShardSimulation(seed)
    run.run()
    check = run.check
    print(seed, run.world.events, run.world.now_ms, sorted(check.acknowledged.items()), sorted(check.committed.items()))
"""
SCENARIOS = Path(__file__).parents[2] / "scenarios" / "raft"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lot", range(LOTS))
def test_random_runs_keep_the_invariants(lot: int, explored: list[str]) -> None:
    """In random runs, no acknowledged entry is lost, no two replicas commit different entries, and all nodes agree once
    the faults are healed.
    """
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
    """A seed that once found a bug passes, because the bug is fixed."""
    ShardSimulation(seed).run()


@pytest.mark.parametrize("mutant", BY_RANDOM_RUNS, ids=lambda mutant: mutant.name)
def test_random_runs_find_a_planted_bug(mutant: RaftMutant, explored: list[str]) -> None:
    """Random runs find each planted bug; a simulation that misses planted bugs would miss real ones."""
    for seed in dict.fromkeys((mutant.first_seed, *range(mutant.seeds_max))):
        knobs = None if mutant.adapt is None else mutant.adapt(ShardKnobs.draw(Random(seed)))
        with mutant.planted():
            try:
                ShardSimulation(seed, knobs).run()
            except AssertionError as broken:
                assert_fits(broken)
                explored.append(f"Raft mutant, {mutant.name}: seed {seed}: {str(broken)[:90]}")
                return
    raise AssertionError(f"{mutant.name}: not found in {mutant.seeds_max} seeds")


@pytest.mark.parametrize("mutant", BY_TRANSCRIPT, ids=lambda mutant: mutant.name)
def test_a_transcript_finds_a_planted_bug(mutant: RaftMutant) -> None:
    """Hand-written transcripts of messages and faults find the bugs that random runs would find only by luck."""
    path = SCENARIOS / mutant.transcript

    with mutant.planted(), pytest.raises(AssertionError, match=path.name) as found:
        Transcript().run(path)

    assert_fits(found.value)


def test_a_seed_gives_the_same_run_under_any_hash_seed() -> None:
    """
    Under any hash seed, the runs of a seed are identical down to the last event, so a reported seed can be repeated.
    """
    digests = outputs_under_two_hash_seeds(RUN)

    assert len(digests) == 1
    assert next(iter(digests)).strip()
