"""Intervals with values, compared with a dictionary that has one value per offset."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidemill.share.interval_map import Interval, IntervalMap

DEFAULT = "-"
Assignment = tuple[int, int, str]
ASSIGNMENTS = st.lists(
    st.builds(
        lambda first, length, value: (first, first + length, value),
        st.integers(0, 40),
        st.integers(1, 12),
        st.sampled_from("-abc"),
    ),
    max_size=20,
)


def by_offset(table: IntervalMap[str]) -> dict[int, str]:
    return {offset: one.value for one in table for offset in range(one.first, one.end)}


def assigned(assignments: list[Assignment]) -> tuple[IntervalMap[str], dict[int, str]]:
    """Return a map and the dictionary that results from the same assignments."""
    table, model = IntervalMap(DEFAULT), dict[int, str]()
    for first, end, value in assignments:
        table.assign(first, end, value)
        model |= dict.fromkeys(range(first, end), value)
    return table, {offset: value for offset, value in model.items() if value != DEFAULT}


@given(ASSIGNMENTS)
def test_assignments_change_exactly_their_offsets(assignments: list[Assignment]) -> None:
    """After any assignments, a map has the same values as a dictionary with one value per offset."""
    table, model = assigned(assignments)

    assert model == by_offset(table)
    assert [model.get(offset, DEFAULT) for offset in range(60)] == [table.get(offset) for offset in range(60)]


@given(ASSIGNMENTS)
def test_the_normal_form_depends_on_the_values_alone(assignments: list[Assignment]) -> None:
    """Intervals are ascending, disjoint and as long as possible, so maps with equal values are equal."""
    table, model = assigned(assignments)
    again = IntervalMap(DEFAULT)
    for offset in sorted(model, reverse=True):
        again.assign(offset, offset + 1, model[offset])

    assert table == again
    assert all(a.end < b.first or (a.end == b.first and a.value != b.value) for a, b in pairwise(table))
    assert not any(one.value == DEFAULT or one.first >= one.end for one in table)


@given(ASSIGNMENTS, st.integers(0, 55), st.integers(1, 20))
def test_intervals_within_bounds_are_cut_to_them(assignments: list[Assignment], first: int, length: int) -> None:
    """`within` yields exactly those parts of the intervals that lie within the bounds."""
    table, model = assigned(assignments)

    inside = IntervalMap(DEFAULT, table.within(first, first + length))

    assert {offset: value for offset, value in model.items() if first <= offset < first + length} == by_offset(inside)


@given(ASSIGNMENTS, st.integers(0, 60))
def test_dropping_forgets_the_offsets_below(assignments: list[Assignment], offset: int) -> None:
    """`drop_below` removes the values below the offset, and no others."""
    table, model = assigned(assignments)
    table.drop_below(offset)

    assert {place: value for place, value in model.items() if place >= offset} == by_offset(table)


@given(ASSIGNMENTS, st.integers(0, 50), st.integers(1, 20))
def test_offsets_with_the_same_value_are_found_at_once(assignments: list[Assignment], first: int, length: int) -> None:
    """Repeated calls of `at` cover the bounds without gaps, and return the right value for each offset."""
    table, model = assigned(assignments)
    walked, offset = list[Interval[str]](), first
    while offset < first + length:
        walked.append(table.at(offset, first + length))
        offset = walked[-1].end

    assert first + length == offset
    values = [one.value for one in walked for _ in range(one.first, one.end)]
    assert [model.get(place, DEFAULT) for place in range(first, first + length)] == values


@given(ASSIGNMENTS, ASSIGNMENTS)
def test_intervals_are_assigned_together_as_one_by_one(before: list[Assignment], together: list[Assignment]) -> None:
    """
    `assign_all` has the effect of repeated calls of `assign`, whatever the order of the intervals and their gaps.
    """
    table, _ = assigned(before)
    table.assign_all(Interval(*one) for one in together)

    assert assigned(before + together)[0] == table

    table.assign_all(Interval(*one) for one in sorted(together))
    assert assigned(before + together + sorted(together))[0] == table


@given(ASSIGNMENTS, ASSIGNMENTS)
def test_maps_meet_at_every_offset(assignments: list[Assignment], others: list[Assignment]) -> None:
    """`meet` yields every offset of the other intervals once, in their order, with both values, in long parts."""
    table, model = assigned(assignments)
    for order in (others, sorted(others)):
        parts = [*table.meet(order)]

        assert [
            (offset, model.get(offset, DEFAULT), other) for first, end, other in order for offset in range(first, end)
        ] == [(offset, value, other) for first, end, value, other in parts for offset in range(first, end)]
        assert all(first < end for first, end, _, _ in parts)
