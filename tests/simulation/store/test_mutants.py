"""The exploration of crash points finds each planted bug within a budget of opened disks."""

import pytest

from tests.simulation.planted_bugs import assert_fits
from tests.simulation.store.crash_exploration import Explorer, Violation
from tests.simulation.store.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_rule_is_found(mutant: Mutant, explored: list[str]) -> None:
    """Each broken rule is found within its budget of opened disks, and by the right kind of violation."""
    explorer = Explorer(states_max=mutant.states_max)

    with mutant.planted(), pytest.raises(Violation) as found:
        explorer.run(mutant.seed)

    assert_fits(found.value)
    explored.append(f"Mutant of {mutant.rule}, {mutant.name}: {found.value.kind} after {explorer.states} states")
    assert found.value.kind in mutant.kinds
