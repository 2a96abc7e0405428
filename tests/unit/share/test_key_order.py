"""`KeyOrder` compared with a dictionary of unfinished records."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.share.key_order import KeyOrder

OFFSETS = 12
KEYS = st.lists(st.sampled_from([None, 1, 2, 3]), min_size=OFFSETS, max_size=OFFSETS)
RANGES = st.lists(st.tuples(st.integers(0, OFFSETS), st.integers(1, OFFSETS)), max_size=12)


def free_offsets(order: KeyOrder) -> set[int]:
    found: set[int] = set()
    offset = 0
    while free := order.next_free(offset, OFFSETS):
        assert offset <= free[0] < free[1] <= OFFSETS
        found.update(range(*free))
        offset = free[1]
    return found


@given(KEYS, RANGES)
def test_the_first_unfinished_record_of_each_key_is_free(
    keys: list[int | None], finished: list[tuple[int, int]]
) -> None:
    """
    Whatever was finished, in whatever order: a record waits exactly while an earlier one of its key is not finished.
    """
    order = KeyOrder()
    model = {offset: key for offset, key in enumerate(keys) if key is not None}
    for offset, key in model.items():
        order.add(offset, key)

    for first, length in finished:
        order.finish(first, first + length)
        model = {offset: key for offset, key in model.items() if not first <= offset < first + length}
        waiting = {offset for offset, key in model.items() if key in [model[it] for it in model if it < offset]}

        assert set(range(OFFSETS)) - waiting == free_offsets(order)
        assert len(model) == len(order)


def test_records_may_be_added_after_others_are_finished() -> None:
    """
    A record that is added waits for the last unfinished record of its key, and for none if all are finished.
    """
    order = KeyOrder()
    order.add(0, 7)
    order.add(1, 7)
    order.finish(1, 2)
    order.add(2, 7)

    assert (0, 2) == order.next_free(0, 3)  # the record at offset 1 is finished
    order.finish(0, 1)
    assert (0, 3) == order.next_free(0, 3)
    order.finish(2, 3)
    order.add(3, 7)
    assert (3, 4) == order.next_free(3, 4)
