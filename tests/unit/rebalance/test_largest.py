"""The largest of many items."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.rebalance.largest import Item, keep_largest


@given(st.lists(st.tuples(st.integers(), st.integers())))
def test_the_largest_items_are_kept(items: list[Item]) -> None:
    """They are those at the end of the sorted list."""
    heap: list[Item] = []
    for item in items:
        keep_largest(heap, item, 5)

    assert sorted(items)[-5:] == sorted(heap)
