"""Long computations run one after the other, a slice in each turn of the event loop."""

import pytest

from tests.unit.broker.broker_world import HandTurns
from tidemill.broker.controller.sliced_jobs import SlicedJobs
from tidemill.rebalance.slices import Slices
from tidemill.shard.pending import OUTCOME_UNKNOWN


def counting(name: str, slices: int, done: list[str]) -> Slices[str]:
    for number in range(slices):
        done.append(f"{name}{number}")
        yield
    return name


def test_each_turn_runs_one_slice() -> None:
    """
    A turn of the event loop serves requests, too; so a computation takes one slice of it.
    """
    turns, done, results = HandTurns(), [], []
    SlicedJobs(turns).run(counting("a", 3, done)).then(results.append)

    counts = []
    while turns.turn():
        counts.append(len(done))

    assert ([1, 2, 3, 3], ["a"]) == (counts, results)


def test_computations_do_not_overlap() -> None:
    """
    The second one begins when the first one has ended: both read and change the same index.
    """
    turns, done, results = HandTurns(), [], []
    jobs = SlicedJobs(turns)
    jobs.run(counting("a", 2, done)).then(results.append)
    jobs.run(counting("b", 2, done)).then(results.append)
    while turns.turn():
        pass

    assert (["a0", "a1", "b0", "b1"], ["a", "b"]) == (done, results)


def test_computations_are_given_up_without_a_result() -> None:
    """
    The controller has changed: nothing more is computed, and those who wait are told.  Later computations run.
    """
    turns, done, results = HandTurns(), [], []
    jobs = SlicedJobs(turns)
    jobs.run(counting("a", 2, done)).then(results.append)
    jobs.run(counting("b", 2, done)).then(results.append)
    turns.turn()

    jobs.give_up()
    jobs.run(counting("c", 1, done)).then(results.append)
    while turns.turn():
        pass

    assert (["a0", "c0"], [OUTCOME_UNKNOWN, OUTCOME_UNKNOWN, "c"]) == (done, results)


def test_an_error_ends_only_its_own_computation() -> None:
    turns, done, results, errors = HandTurns(), [], [], []
    jobs = SlicedJobs(turns)

    def wrong() -> Slices[str]:
        yield
        raise ValueError("a bug")

    jobs.run(wrong()).then(results.append, errors.append)
    jobs.run(counting("b", 1, done)).then(results.append)
    while turns.turn():
        pass

    assert (["b"], ["a bug"]) == (results, [str(error) for error in errors])


@pytest.mark.parametrize("given_up_in_slice", [True, False])
def test_a_computation_may_give_up_all(given_up_in_slice: bool) -> None:
    """
    A result, or a slice itself, may lead to the end of the controller's period.
    """
    turns, results = HandTurns(), []
    jobs = SlicedJobs(turns)

    def giving_up() -> Slices[str]:
        yield
        return "a"

    pending = jobs.run(giving_up())
    pending.then(lambda result: (results.append(result), None if given_up_in_slice else jobs.give_up())[0])
    jobs.run(counting("b", 1, [])).then(results.append)
    turns.turn()
    if given_up_in_slice:
        jobs.give_up()
    while turns.turn():
        pass

    assert results == ([OUTCOME_UNKNOWN, OUTCOME_UNKNOWN] if given_up_in_slice else ["a", OUTCOME_UNKNOWN])
