"""Runs of offsets in the same state, compared with a dictionary that has one state per offset."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidemill.share.run_table import Reason, RecordState, Run, RunTable

State = tuple[RecordState, Reason, int, int]
DEFAULT: State = (RecordState.AVAILABLE, Reason.NONE, 0, 0)
STATES = st.sampled_from(
    [
        DEFAULT,
        (RecordState.AVAILABLE, Reason.NONE, 1, 0),
        (RecordState.AVAILABLE, Reason.NONE, 1, 500),
        (RecordState.ACKNOWLEDGED, Reason.NONE, 1, 0),
        (RecordState.ARCHIVING, Reason.REJECTED, 2, 0),
        (RecordState.ARCHIVED, Reason.DELIVERY_LIMIT, 2, 0),
    ]
)
RUNS = st.builds(
    lambda first, length, state: Run(first, first + length, *state), st.integers(0, 40), st.integers(1, 12), STATES
)


def by_offset(table: RunTable) -> dict[int, State]:
    return {offset: run[2:] for run in table for offset in range(run.first, run.end)}


def assigned(runs: list[Run]) -> tuple[RunTable, dict[int, State]]:
    """Return a table and the dictionary that results from the same assignments."""
    table, model = RunTable(), dict[int, State]()
    for run in runs:
        table.assign(run)
        model |= dict.fromkeys(range(run.first, run.end), run[2:])
    return table, {offset: state for offset, state in model.items() if state != DEFAULT}


@given(st.lists(RUNS, max_size=20))
def test_assignments_change_exactly_their_offsets(runs: list[Run]) -> None:
    """A table has the states that a dictionary of offsets has, whatever runs were assigned before."""
    table, model = assigned(runs)

    assert model == by_offset(table)
    assert [model.get(offset, DEFAULT) for offset in range(60)] == [table.at(offset)[2:] for offset in range(60)]


@given(st.lists(RUNS, max_size=20))
def test_the_normal_form_depends_on_the_states_alone(runs: list[Run]) -> None:
    """Runs are ascending, disjoint and as long as possible, so tables with equal states are equal."""
    table, model = assigned(runs)
    again = RunTable()
    for offset in sorted(model, reverse=True):
        again.assign(Run(offset, offset + 1, *model[offset]))

    assert table == again
    assert all(
        one.end < other.first or (one.end == other.first and one[2:] != other[2:]) for one, other in pairwise(table)
    )
    assert not any(run.is_default or run.first >= run.end for run in table)


@given(st.lists(RUNS, max_size=20), st.integers(0, 55), st.integers(1, 20))
def test_runs_within_bounds_are_those_with_an_offset_there(runs: list[Run], first: int, length: int) -> None:
    """`within` returns exactly the runs that have an offset within the bounds."""
    table, _ = assigned(runs)
    end = first + length

    overlapping = [run for run in table if max(run.first, first) < min(run.end, end)]
    assert overlapping == table.within(first, end)


@given(st.lists(RUNS, max_size=20), st.integers(0, 60))
def test_dropping_forgets_the_offsets_below(runs: list[Run], offset: int) -> None:
    """`drop_below` forgets the states below the offset and no other."""
    table, model = assigned(runs)
    table.drop_below(offset)

    assert {place: state for place, state in model.items() if place >= offset} == by_offset(table)


def test_the_default_run_ends_where_the_next_run_begins() -> None:
    """`at` returns for an offset without a run a run of available records that does not reach into the next run."""
    table = RunTable([Run(5, 7, RecordState.ACKNOWLEDGED)])

    assert Run(2, 5, RecordState.AVAILABLE) == table.at(2)
    assert Run(9, 10, RecordState.AVAILABLE) == table.at(9)


def test_finished_runs_are_dropped_up_to_the_first_gap() -> None:
    """`drop_finished` removes adjacent terminal runs from the start on, and stops at a gap."""
    table = RunTable(
        [
            Run(3, 5, RecordState.ACKNOWLEDGED),
            Run(5, 6, RecordState.ARCHIVED, Reason.REJECTED),
            Run(7, 8, RecordState.ACKNOWLEDGED),
        ]
    )

    assert 6 == table.drop_finished(3)
    assert [Run(7, 8, RecordState.ACKNOWLEDGED)] == list(table)
    assert 6 == table.drop_finished(6)
