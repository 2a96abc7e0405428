"""Why consumers get no records although some are available."""

from tidemill.share.leases import Leases
from tidemill.share.record_status import RecordState
from tidemill.share.share import Share


def blocked_by(share: Share, leases: Leases, end: int) -> str | None:
    """
    Return the limit that keeps available records below `end`, the high watermark, from consumers, as a short sentence
    for an administrator; None if there is none.
    """
    can_be_acquired = leases.next_available(share.start, end, wall=0) is not None
    if (leases.lock_room > 0 and can_be_acquired) or not leases.has_waiting(end):
        return None
    if leases.lock_room <= 0:
        return (
            f"consumers hold {leases.held_count} records, and share.partition.max.record.locks is "
            f"{leases.settings.locks_max}"
        )
    dead = sum(run.end - run.first for run in share.runs if run.value.state == RecordState.ARCHIVING)
    letters = f"; {dead} dead records wait for their dead letters" if dead else ""
    return (
        f"{share.tracked_count} runs and dead letters are tracked, and tidemill.share.max.tracked is "
        f"{leases.settings.tracked_max}{letters}"
    )
