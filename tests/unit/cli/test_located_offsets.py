"""The offset in each partition that a start position refers to."""

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka.admin import OffsetSpec

from tidemill.cli.located_offsets import LocatedOffset, locate
from tidemill.cli.start_position import StartPosition

LATER = 9_000


class Log:
    """Returns the offsets of partition 0, whose log spans offsets 10 to 20, and of partition 1, which is empty with
    both ends at 5.
    """

    def offsets_of(self, topic: str, partitions: Sequence[int], spec: Any) -> dict[int, int]:
        if spec is EARLIEST:
            offsets = {0: 10, 1: 5}
        elif spec is LATEST:
            offsets = {0: 20, 1: 5}
        else:
            offsets = {0: -1 if spec._value == LATER else 14, 1: -1}
        return {partition: offsets[partition] for partition in partitions}


EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (StartPosition(), {0: (10, False), 1: (5, False)}),
        (StartPosition(latest=True), {0: (20, False), 1: (5, False)}),
        (StartPosition(offset=12), {0: (12, False), 1: (5, True)}),
        (StartPosition(offset=0), {0: (10, True), 1: (5, True)}),
        (StartPosition(offset=20), {0: (20, False), 1: (5, True)}),
        (StartPosition(timestamp_ms=1_000), {0: (14, False), 1: (5, False)}),
        (StartPosition(timestamp_ms=LATER), {0: (20, False), 1: (5, False)}),
    ],
    ids=str,
)
def test_a_position_is_inside_the_log(position: StartPosition, expected: dict[int, tuple[int, bool]]) -> None:
    """
    An offset outside the log is replaced by the nearest one inside, and marked as replaced.  A timestamp after the last
    record refers to the end offset.
    """
    located = locate(Log(), "t", [0, 1], position)  # type: ignore[arg-type]

    bounds = {0: (10, 20), 1: (5, 5)}
    assert {
        number: LocatedOffset(offset, *bounds[number], is_clamped) for number, (offset, is_clamped) in expected.items()
    } == located
