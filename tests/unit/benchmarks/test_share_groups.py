"""The cases of the benchmark of share groups, and what it says about rounds."""

from itertools import product

from benchmarks.report import Outcome
from benchmarks.share_groups import CASES, rounds_note


def test_every_combination_is_a_case() -> None:
    """
    One and four consumers read one and eight partitions, with and without releases.  Only four consumers have a target.
    """
    combinations = [(it.consumers, it.load.partitions, it.released_percent) for it in CASES]

    assert sorted(product((1, 4), (1, 8), (0, 10))) == sorted(combinations)
    assert {(1, 0): None, (1, 10): None, (4, 0): 0.8, (4, 10): 1.0} == {
        (it.consumers, it.released_percent): it.target for it in CASES
    }
    assert len(CASES) == len({it.name for it in CASES})


def test_the_note_has_the_rounds_of_each_broker() -> None:
    """
    The note shows the median of a broker's rounds, and leaves out a broker that did not take part.
    """
    outcome = Outcome(CASES[0])
    for rounds in (100, 1_500, 900):
        outcome.add("Tidemill", {"value": 1, "rounds": rounds})

    assert "share-1x1: rounds a second: Tidemill 900." == rounds_note(outcome)
