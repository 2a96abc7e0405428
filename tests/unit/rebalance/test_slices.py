"""Slices: long work that yields often."""

from tidemill.rebalance.slices import UNITS_PER_SLICE, Slices, Work, finish


def test_a_slice_ends_when_its_units_are_done() -> None:
    """Work that costs more fills a slice sooner."""
    work = Work()
    first = [work.fills_slice() for _ in range(UNITS_PER_SLICE)]
    work.add(UNITS_PER_SLICE - 4)

    assert [False] * (UNITS_PER_SLICE - 1) + [True] == first
    assert [False, False, True] == [work.fills_slice(units) for units in (1, 1, 2)]


def test_finish_returns_the_result() -> None:
    """The result of a computation is what its generator returns."""

    def sum_of(count: int) -> Slices[int]:
        for _ in range(count):
            yield
        return count

    assert 7 == finish(sum_of(7))
