"""Each rule of re-placement is kept in a simulated cluster, and missed where it is left out."""

import pytest

from tests.simulation.cluster.directed_run import DirectedRun, Script
from tests.simulation.cluster.healing_mutants import MUTANTS, HealingMutant
from tests.simulation.cluster.rebalance_scripts import SCRIPTS
from tests.simulation.planted_bugs import find_planted_bug

MUTANT_SEEDS = range(10)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.act.__name__)
def test_a_rule_is_kept(script: Script) -> None:
    """The script brings about what a rule is for, with the seeds with which the planted bugs are found."""
    for seed in sorted({mutant.seed for mutant in MUTANTS if mutant.script is script}):
        run = DirectedRun(seed, script)
        run.run()

        assert 1 == run.happened["scripts"]


def test_each_script_finds_a_planted_bug() -> None:
    """A script that finds none would not show that a rule is kept."""
    assert {*SCRIPTS} == {mutant.script for mutant in MUTANTS}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.planted.__name__)
def test_a_planted_bug_is_found(mutant: HealingMutant, explored: list[str]) -> None:
    """A script finds each planted bug, with the seed that has found it before, or with one of the first seeds."""
    name, errors = f"Re-placement, {mutant.planted.__name__}", (AssertionError, ExceptionGroup)
    seeds = (mutant.seed, *MUTANT_SEEDS)
    explored.append(
        find_planted_bug(name, mutant.planted, lambda seed: DirectedRun(seed, mutant.script).run(), seeds, errors)
    )
