"""The time of a decision, by three clocks.  A wall clock can jump, so no single clock serves every purpose."""

from typing import NamedTuple


class Timestamps(NamedTuple):
    """The time of one decision; every field is in milliseconds."""

    now_ms: int
    """The monotonic clock of this process: deadlines are measured with it."""
    append_time: int
    """
    The append time of entries appended now, since the epoch.  Records contain it.  It never decreases within a
    partition.
    """
    past_ms: int
    """
    The earliest of three readings, since the epoch: the wall clock, the append time, and the wall clock at load plus
    the monotonic time since then.  Expiry by age uses it, so that nothing expires because one clock jumped ahead.
    """
