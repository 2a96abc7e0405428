"""Ranges of offsets."""

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given

from tidemill.timer.covered_offsets import CoveredOffsets

BOUNDS = st.tuples(st.integers(0, 30), st.integers(0, 30))


@given(st.lists(st.tuples(st.booleans(), BOUNDS)), BOUNDS)
def test_ranges_equal_a_set(changes: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]) -> None:
    """Ranges are added and removed in any order; empty ones change nothing.  Gaps are as long as possible."""
    covered, expected = CoveredOffsets(), set[int]()
    for adds, (first, end) in changes:
        if adds:
            covered.add(first, end)
            expected |= {*range(first, end)}
        else:
            covered.remove(first, end)
            expected -= {*range(first, end)}

    gaps = covered.gaps(*asked)

    assert [it for it in range(*asked) if it not in expected] == [it for gap in gaps for it in range(*gap)]
    assert all(first < end for first, end in gaps)
    assert all(former_end < first for (_, former_end), (first, _) in pairwise(gaps))
