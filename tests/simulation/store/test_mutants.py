"""Each planted bug must be found by the crash points, within a bound: else they would not be worth their time."""

import pytest

from tests.simulation.store.crash_exploration import Explorer, Violation
from tests.simulation.store.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_rule_is_found(mutant: Mutant, explored: list[str]) -> None:
    """Within its budget of states, and with a violation of the expected kind."""
    explorer = Explorer(states_max=mutant.states_max)

    with mutant.planted(), pytest.raises(Violation) as found:
        explorer.run()

    explored.append(f"Mutant of {mutant.rule}, {mutant.name}: {found.value.kind} after {explorer.states} states")
    assert found.value.kind in mutant.kinds
