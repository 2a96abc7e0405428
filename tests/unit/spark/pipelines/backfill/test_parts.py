"""The division of groups into parts, the rates of their tasks, and the paths of source files."""

import pytest

from tidemill.spark.pipelines.backfill.part_writer import task_rates
from tidemill.spark.pipelines.backfill.parts import Part, checked, of_group
from tidemill.spark.pipelines.backfill.source_format import base_path, escaped
from tidemill.spark.pipelines.backfill.time_groups import FileGroup, SourceFile


def source(path, first, last, partitions):
    records = sum(partitions.values())
    return SourceFile(
        path=path, size=1, modified_ms=0, records=records, bytes=10 * records, first_us=first, last_us=last,
        partitions=partitions,
    )  # fmt: skip


def part(path, first, last, records):
    return Part(
        paths=(path,), is_sorted=True, records=records, bytes=1, first_us=first, last_us=last, partitions={0: records}
    )


GROUP = FileGroup(files=(source("a", 1, 5, {0: 3, 1: 1}), source("b", 2, 9, {1: 4})), is_sorted_first=True)


def test_a_group_that_is_not_sorted_first_is_one_part():
    made = of_group(GROUP)

    assert (("a", "b"), 8, 80, 1, 9, {0: 3, 1: 5}, False) == (
        made.paths, made.records, made.bytes, made.first_us, made.last_us, made.partitions, made.is_sorted,
    )  # fmt: skip


def test_sorted_parts_run_in_event_time_order_whatever_their_files_are_called():
    assert ["z", "y", "x"] == [
        it.paths[0] for it in checked([part("x", 5, 9, 1), part("y", 5, 5, 3), part("z", 1, 5, 4)], GROUP)
    ]


def test_parts_that_lack_records_are_refused():
    """Parts that lack records of their group are refused: a source file was replaced between the scan and the sort."""
    with pytest.raises(ValueError, match="a and the 1 files that overlap it have 7 records, and had 8 when the run"):
        checked([part("x", 1, 9, 7)], GROUP)


def test_a_task_has_the_share_of_its_records():
    """
    Each task gets a part of the rate in proportion to its records: the tasks end at about the same time, and the job
    reaches the rate without exceeding it.
    """
    assert (300.0, 100.0) == task_rates(400, {0: 100, 1: 50, 2: 50}, 2)
    assert (400.0,) == task_rates(400, {0: 1, 7: 1}, 1)
    assert (None, None) == task_rates(None, {0: 1}, 2)


@pytest.mark.parametrize(
    ("paths", "base"),
    [
        (["file:/data/x.csv"], None),
        (["file:/data/x.csv", "file:/data/year=2013/month=1/x.csv"], "file:/data"),
        (["file:/data/a=b.csv"], None),
        (["s3a://bucket/year=2013/x.csv"], "s3a://bucket"),
    ],
)
def test_the_base_of_partition_directories_is_above_the_first(paths, base):
    assert base == base_path(paths)


def test_no_character_of_a_path_is_a_wildcard():
    assert [r"file:/a b\[1\]\{x\}\,\*\?\\.csv"] == escaped([r"file:/a b[1]{x},*?\.csv"])
