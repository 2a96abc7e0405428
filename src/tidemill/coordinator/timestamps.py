"""What time it is for a coordinator: three answers, because clocks are set and jump."""

from typing import NamedTuple


class Timestamps(NamedTuple):
    """In milliseconds."""

    now_ms: int
    """Of a monotonic clock: deadlines are measured with it."""
    append_time: int
    """What the partition's log gives its entries, since the epoch, never going back: it is written down."""
    past_ms: int
    """Since the epoch: by every clock it is at least this late.  What expires does so by it."""
