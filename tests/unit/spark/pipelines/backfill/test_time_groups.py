"""The order of source files by event time, and which of them are sorted together."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidemill.spark.pipelines.backfill.time_groups import SourceFile, time_groups

RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 8), st.integers(1, 30)).map(lambda it: (it[0], it[0] + it[1], it[2])),
    max_size=30,
)


def file(path, first, last, records=10):
    return SourceFile(
        path=path, size=1, modified_ms=0, records=records, bytes=5 * records, first_us=first, last_us=last,
        partitions={0: records},
    )  # fmt: skip


def named(groups):
    return ["".join(file.path for file in group.files) + "*" * group.is_sorted_first for group in groups]


def test_files_run_in_the_order_of_their_first_event():
    """
    The files' names and the order in which they are listed do not matter.  Consecutive files that do not overlap share
    a part as long as they fit into it.
    """
    files = [file("c", 40, 50), file("a", 0, 9), file("b", 20, 30)]

    assert ["abc"] == named(time_groups(files, 30))
    assert ["ab", "c"] == named(time_groups(files, 29))
    assert ["a", "b", "c"] == named(time_groups(files, 10))


def test_overlapping_files_are_sorted_together_also_through_a_third():
    files = [file("a", 0, 30), file("b", 5, 6), file("c", 29, 40), file("d", 41, 50)]

    assert ["abc*", "d"] == named(time_groups(files, 1_000))


def test_files_that_only_touch_do_not_overlap():
    """
    Records with the same event time may be in any order, so a file may begin at the event time at which the previous
    one ends.
    """
    files = [file("b", 9, 9), file("a", 0, 9), file("c", 9, 20), file("d", 9, 12)]

    assert ["ab", "dc*"] == named(time_groups(files, 1_000))


def test_a_file_with_too_many_records_is_sorted_into_parts():
    files = [file("a", 0, 9, records=5), file("b", 10, 20, records=31), file("c", 21, 30, records=5)]
    groups = time_groups(files, 10)

    assert ["a", "b*", "c"] == named(groups)
    assert [1, 4, 1] == [group.part_count(10) for group in groups]


def test_no_files_have_no_groups():
    assert [] == time_groups([], 10)


@given(RANGES, st.integers(1, 100))
def test_groups_are_in_event_time_order_and_have_every_file_once(ranges, part_records):
    """A group that is not sorted first fits into a single part, and its files do not overlap."""
    files = [file(f"{index:02}", *each) for index, each in enumerate(ranges)]
    groups = time_groups(files, part_records)

    assert sorted(files, key=lambda it: it.path) == sorted((f for g in groups for f in g.files), key=lambda it: it.path)
    assert all(before.last_us <= after.first_us for before, after in pairwise(groups))
    for group in groups:
        assert (group.first_us, group.last_us) == (
            min(f.first_us for f in group.files),
            max(f.last_us for f in group.files),
        )
        if not group.is_sorted_first:
            assert group.records <= part_records
            assert all(before.last_us <= after.first_us for before, after in pairwise(group.files))
