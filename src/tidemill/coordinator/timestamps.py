"""The time of a decision, by three clocks: wall clocks are set and jump, so no single one serves every purpose."""

from typing import NamedTuple


class Timestamps(NamedTuple):
    """All in milliseconds."""

    now_ms: int
    """The monotonic clock of this process: deadlines are measured with it."""
    append_time: int
    """
    The time that the partition's log gives to entries appended now, since the epoch.  It never goes back within a
    partition, and it is what records store.
    """
    past_ms: int
    """
    The earliest of three readings, since the epoch: wall clock, append time, and the wall clock at load plus monotonic
    time.  What expires by age is judged by it, so that one clock that jumps ahead expires nothing.
    """
