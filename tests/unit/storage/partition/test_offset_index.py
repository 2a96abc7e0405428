"""The index of a segment: a hint that never points beyond the batch being looked up."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.storage.partition.offset_index import OffsetIndex

POINTS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5_000), st.integers(0, 30)), min_size=1, max_size=40)


def index_of(points: list[tuple[int, int, int]]) -> tuple[OffsetIndex, list[tuple[int, int, int]]]:
    """
    Return an index, and its points as (offset, position, timestamp).  `points` has the differences between each point
    and the next.
    """
    index, absolute = OffsetIndex(), []
    offset = position = timestamp = 0
    for offset_step, position_step, timestamp_step in points:
        absolute.append((offset, position, timestamp))
        index.add(offset, position, timestamp, 100, 1)
        offset, position, timestamp = offset + offset_step, position + position_step, timestamp + timestamp_step
    return index, absolute


@given(POINTS, st.integers(0, 2_500))
def test_a_walk_begins_at_the_last_point_at_or_before_an_offset(
    points: list[tuple[int, int, int]], offset: int
) -> None:
    """
    The walk through a segment to an offset begins at the last index point at or before the offset, and finds the batch
    from there.
    """
    index, absolute = index_of(points)

    assert max(point[:2] for point in absolute if point[0] <= offset) == index.point_before(offset)


@given(POINTS, st.integers(0, 1_500), st.integers(1, 250_000))
def test_a_walk_for_a_timestamp_begins_before_the_first_such_record(
    points: list[tuple[int, int, int]], timestamp: int, size: int
) -> None:
    """
    A walk to a timestamp begins before the first record that has this timestamp or a later one, and below the end of
    the readable bytes.
    """
    index, absolute = index_of(points)

    before = [point[:2] for point in absolute if point[2] < timestamp and point[1] < size]

    assert max(before, default=(0, 0)) == index.point_before_timestamp(timestamp, size)


@given(POINTS, st.integers(0, 5_000))
def test_a_truncated_index_has_no_point_behind_the_end(points: list[tuple[int, int, int]], size: int) -> None:
    """After a truncation, no point lies beyond the new end, where later points will be added."""
    index, absolute = index_of(points)

    index.truncate(size, 100)

    kept = [point for point in absolute if point[1] < size]
    assert (len(kept), kept[-1][1] + 100 if kept else 0) == (len(index), index.next_position)


@given(POINTS)
def test_an_index_is_read_as_it_was_written(points: list[tuple[int, int, int]]) -> None:
    """
    An index is read as it was written, and rejected if a byte is wrong or if the segment is shorter than the index.
    """
    index, absolute = index_of(points)
    data = index.encode()
    assert data is not None

    again = OffsetIndex.decode(data, absolute[-1][1] + 1)

    assert again is not None
    assert data == again.encode()
    assert OffsetIndex.decode(data, absolute[-1][1]) is None
    assert OffsetIndex.decode(data[:-1], 1 << 30) is None
    assert OffsetIndex.decode(data[:-1] + bytes([data[-1] ^ 1]), 1 << 30) is None


def test_an_index_is_saved_while_it_grows() -> None:
    """Another thread may save the index while its newest point has a position and a timestamp, but no offset yet."""
    index, _ = index_of([(5, 100, 10), (5, 100, 10)])
    whole = index.last_point
    _, positions, timestamps, _ = index._columns
    positions.append(200)
    timestamps.append(20)

    saved = OffsetIndex.decode(index.encode() or b"", 1 << 30)

    assert saved is not None
    assert whole == saved.last_point
