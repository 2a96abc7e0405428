"""A shorthand for building runs, which are ranges of offsets whose records are in the same state."""

from tidemill.share.interval_map import Interval
from tidemill.share.record_status import Reason, RecordState, RecordStatus, Run


def run(
    first: int,
    end: int,
    state: RecordState,
    reason: Reason = Reason.NONE,
    delivery_count: int = 0,
    release_at: int = 0,
) -> Run:
    return Interval(first, end, RecordStatus(state, delivery_count, release_at, reason))
