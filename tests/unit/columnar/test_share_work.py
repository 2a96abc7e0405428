"""How acquired records are divided among tasks."""

import pytest

from tidemill.columnar.share_work import AcquiredRange, Piece, works
from tidemill.model.partition import TopicPartition


def pieces() -> list[Piece]:
    ranges = {0: [(0, 10), (12, 14)], 1: [(5, 9)]}
    return [
        Piece(TopicPartition("t", number), serial, (AcquiredRange(first, end, 1, f"m{serial}"),))
        for number, some in ranges.items()
        for serial, (first, end) in enumerate(some)
    ]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({}, [12, 4]),
        ({"records_per_partition_max": 5}, [4, 4, 4, 4]),
        ({"partitions_min": 4}, [4, 4, 4, 4]),
        ({"records_per_partition_max": 100, "partitions_min": 1}, [12, 4]),
    ],
)
def test_tasks_are_about_equal(limits, sizes):
    planned = works(pieces(), "g", {"t": None}, **limits)

    assert sizes == [one.size for one in planned]
    found = [(one.partition, n) for one in planned for part in one.ranges for n in range(part.first, part.end)]
    assert [*((0, n) for n in (*range(10), 12, 13)), *((1, n) for n in range(5, 9))] == found


def test_an_empty_batch_has_no_tasks():
    assert [] == works([], "g", {}, partitions_min=4)
