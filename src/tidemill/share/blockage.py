"""Why consumers get no records although some are available."""

from tidemill.share.leases import Leases
from tidemill.share.lone_member import shown_name
from tidemill.share.record_status import RecordState
from tidemill.share.share import Share
from tidemill.share.share_settings import Order, ShareSettings


def blocked_by(share: Share, leases: Leases, end: int) -> str | None:
    """
    Return the limit or the order that keeps available records below `end`, the high watermark, from consumers, as a
    short sentence for an administrator; None if there is none.
    """
    if leases.resume_at is not None and leases.availability.has_waiting(end):
        return "the new leader waits for one lock duration, because tidemill.share.failover.wait is true"
    active = leases.active
    if active.name is not None and active.is_idle and leases.availability.has_waiting(end):
        return (
            f"{shown_name(active.name)} has no fetch waiting, and tidemill.share.mode is exclusive: another "
            "consumer takes over after one lock duration"
        )
    can_be_acquired = leases.next_available(share.start, end, wall=0) is not None
    if (leases.lock_room > 0 and can_be_acquired) or not leases.availability.has_waiting(end):
        return None
    if leases.lock_room <= 0:
        return (
            f"consumers hold {leases.held_count} records, and share.partition.max.record.locks is "
            f"{leases.settings.locks_max}"
        )
    if not leases.availability.is_tracking_full:
        return f"the available records wait for earlier ones, because {_order(leases.settings)}"
    dead = sum(run.end - run.first for run in share.runs if run.value.state == RecordState.ARCHIVING)
    letters = f"; {dead} dead records wait for their dead letters" if dead else ""
    return (
        f"{share.tracked_count} runs and dead letters are tracked, and tidemill.share.max.tracked is "
        f"{leases.settings.tracked_max}{letters}"
    )


def _order(settings: ShareSettings) -> str:
    if settings.order is not Order.NONE:
        return f"tidemill.share.order is {settings.order}"
    if settings.has_look_ahead:
        return "their priorities are not known yet"
    return "tidemill.share.order or tidemill.share.mode has changed"
