"""The offsets that an audit compares, and their division into steps."""

import json

import pytest

from tidemill.spark.pipelines.audit import bounds
from tidemill.spark.pipelines.audit.bounds import Bounds, steps
from tidemill.spark.pipelines.audit.options import AuditOptions
from tidemill.spark.pipelines.audit.sides import Sides, with_all, with_archived


def test_steps_cover_every_offset_once_and_divide_no_range() -> None:
    """
    The steps of an audit are disjoint, cover all offsets, and begin at multiples of the range size, except at the start
    of a partition.
    """
    whole = Bounds({0: 5, 1: 0, 2: 7}, {0: 95, 1: 12, 2: 7})
    found = steps(whole, 10)

    offsets = [
        (p, offset) for part in found for p, (start, end) in part.non_empty().items() for offset in range(start, end)
    ]
    assert sorted(offsets) == [(0, offset) for offset in range(5, 95)] + [(1, offset) for offset in range(12)]
    assert len(offsets) == whole.offset_count


@pytest.mark.parametrize(("records", "count"), [(10, 5), (20, 5), (40, 3), (100, 1), (1, 5)])
def test_a_step_has_about_as_many_records_as_it_may(records: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The maximum number of records of a step is divided among the partitions, but a step has at least one range of each
    partition.
    """
    monkeypatch.setattr(bounds, "STEP_RECORDS", records)

    assert count == len(steps(Bounds({0: 0, 1: 0}, {0: 50, 1: 20}), 10))


def test_nothing_to_compare_has_no_steps() -> None:
    """
    If the topics are empty, there is nothing to compare.
    """
    assert [] == steps(Bounds({0: 3}, {0: 3}), 10)


def test_bounds_are_clipped_to_those_of_a_side() -> None:
    """
    On each side, an audit reads only offsets for which that side has records.
    """
    clipped = Bounds({0: 0, 1: 0, 2: 4}, {0: 10, 1: 10, 2: 8}).clipped(Bounds({0: 3, 1: 20}, {0: 7, 1: 30}))

    assert {0: (3, 7)} == clipped.non_empty()


def test_bounds_are_read_back_from_json() -> None:
    """
    A resumed audit compares the same offsets as the run that began it.
    """
    whole = Bounds({0: 5, 11: 0}, {0: 95, 11: 12})

    assert whole == Bounds.from_json(json.loads(json.dumps(whole.to_json())))


TOPIC = Bounds({0: 10}, {0: 100})


@pytest.mark.parametrize(
    ("target", "end", "compared"),
    [
        (Bounds({0: 10}, {0: 100}), "latest", (10, 100)),
        (Bounds({0: 0}, {0: 90}), "latest", (10, 100)),  # the last 10 are missing from the target
        (Bounds({0: 30}, {0: 110}), "latest", (30, 110)),  # the first 20 have expired; the last 10 are additional
        (Bounds({0: 10}, {0: 110}), "-1", (10, 100)),
        (Bounds({0: 200}, {0: 210}), "-1", (200, 200)),
    ],
)
def test_topics_are_compared_in_what_both_still_have(target: Bounds, end: str, compared: tuple[int, int]) -> None:
    """
    Two topics are compared from the first offset that both contain up to the end of the longer topic, or up to a given
    end.
    """
    found = with_all(TOPIC, target, AuditOptions(topic="a", target="b", end=end))

    assert compared == (found.starts[0], found.ends[0])
    assert abs(target.starts[0] - 10) == Sides(source=TOPIC, target=target, compared=found).expired


@pytest.mark.parametrize(
    ("archive", "complete", "end", "compared", "not_archived"),
    [
        (Bounds({0: 0}, {0: 90}), False, "latest", (10, 90), 10),
        (Bounds({0: 0}, {0: 90}), True, "latest", (10, 100), 0),
        (Bounds({0: 0}, {0: 120}), False, "latest", (10, 120), 0),  # the topic was created again
        (Bounds({0: 0}, {0: 120}), False, "-1", (10, 100), 0),
        (Bounds({}, {}), False, "latest", (10, 10), 90),
        (Bounds({}, {}), True, "latest", (10, 100), 0),
    ],
)
def test_an_archive_is_compared_up_to_its_end(
    archive: Bounds, complete: bool, end: str, compared: tuple[int, int], not_archived: int
) -> None:
    """
    Offsets that are not archived yet are only counted, unless the archive is expected to be complete.  Offsets that the
    topic has already removed are not compared.
    """
    found = with_archived(TOPIC, archive, AuditOptions(topic="a", archive="d", complete=complete, end=end))

    assert compared == (found.starts[0], found.ends[0])
    assert not_archived == Sides(source=TOPIC, target=archive, compared=found).not_archived
