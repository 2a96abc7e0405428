"""Writes tell by when a partition was served."""

import pytest

from tests.fault.timers.served_times import ServedTimes, Write


def test_the_first_acknowledgement_of_a_later_write_counts() -> None:
    """A write that was sent before may have been served before; one that was sent later may be answered earlier."""
    served = ServedTimes([[Write(100, 110), Write(200, 3_000), Write(300, 900), Write(4_000, 4_010)], [Write(0, 5)]])

    assert 2_800 == served.failover_ms
    assert [110, 900, 900, 4_010, 4_010] == [served.served_ms(0, since) for since in (100, 101, 300, 301, 4_000)]


def test_nothing_is_known_of_the_time_after_the_last_write() -> None:
    served = ServedTimes([[Write(100, 110)]])

    with pytest.raises(AssertionError, match="nothing was written to partition 0 from 101 on"):
        served.served_ms(0, 101)
