"""Write pauses are computed from the times at which writes were acknowledged."""

import math

from tests.fault.pauses import pause, pause_of_shards, quantile, table

STEADY = [number / 10 for number in range(20)]  # 0.0 … 1.9


def test_the_pause_of_a_steady_load_is_its_pace() -> None:
    """Under a steady load, the longest pause equals the interval between acknowledgements, in any window of time."""
    assert math.isclose(0.1, pause(STEADY, 0.55, 1.0))


def test_a_pause_begins_before_the_fault() -> None:
    """A pause begins with the last acknowledgement before the fault."""
    acknowledged = [0.0, 0.1, 0.2, 3.0, 3.1]

    assert math.isclose(2.8, pause(acknowledged, 0.25, 3.0))


def test_a_response_in_flight_does_not_end_a_pause() -> None:
    """A response that was in flight and arrives right after the fault does not end the pause; the gap that follows the
    response is the pause.
    """
    acknowledged = [0.0, 0.1, 0.26, 3.0, 3.1]

    assert math.isclose(2.74, pause(acknowledged, 0.25, 0.26))


def test_a_pause_that_has_not_ended_is_infinite() -> None:
    """A pause that has not ended is infinite; otherwise a partition that is never written again would seem to have the
    shortest pause.
    """
    assert math.isinf(pause([0.0, 0.1], 0.2, 5.0))


def test_a_shard_pauses_as_long_as_its_slowest_partition() -> None:
    """A shard's pause is the longest pause of its partitions, all of which have the same leader."""
    found = pause_of_shards({0: [0.0, 1.0], 1: [0.0, 2.0], 2: [0.0, 3.0]}, [range(2), range(2, 3)], 0.5, 0.6)

    assert [2.0, 3.0] == found


def test_quantiles_are_measured_values() -> None:
    """A quantile is always one of the measured values, and the 99th percentile of a few values is the largest."""
    assert (2, 4) == (quantile([4, 2, 1, 3], 0.5), quantile([4, 2, 1, 3], 0.99))


def test_the_table_has_a_line_for_each_fault() -> None:
    """The table has a line for each fault, with figures in milliseconds if there are values."""
    lines = table({"kill": [0.5, 1.5], "none": []}).splitlines()

    assert ["kill", "2", "500", "1500", "1500"] == lines[1].split()
    assert ["none", "0"] == lines[2].split()
