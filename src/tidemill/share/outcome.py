"""The status of a record after a delivery, depending on what the consumer did and on the group's settings."""

from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.record_status import Reason, RecordState, RecordStatus
from tidemill.share.share_settings import ShareSettings


def after_acknowledgement(
    kind: int, delivery_count: int, settings: ShareSettings, *, release_at: int = 0
) -> RecordStatus:
    """
    Return the status of a record that a consumer has acknowledged, other than by renewing its lock.

    `release_at` applies if the record becomes available again.  A consumer that acknowledges an acquired record as a
    gap could not read it: the record exists, because only existing records are acquired.  So it is released.
    """
    match kind:
        case Acknowledgement.ACCEPT:
            return RecordStatus(RecordState.ACKNOWLEDGED, delivery_count)
        case Acknowledgement.REJECT:
            return _dead(delivery_count, Reason.REJECTED, settings)
    return after_failure(delivery_count, settings, release_at=release_at)


def after_failure(delivery_count: int, settings: ShareSettings, *, release_at: int = 0) -> RecordStatus:
    """Return the status of a record whose consumer has released it, has let its lock expire, or has left."""
    if delivery_count >= settings.delivery_limit:
        return _dead(delivery_count, Reason.DELIVERY_LIMIT, settings)
    return RecordStatus(RecordState.AVAILABLE, delivery_count, release_at)


def after_expiry(delivery_count: int, settings: ShareSettings) -> RecordStatus:
    """Return the status of a record whose time to live has passed."""
    return _dead(delivery_count, Reason.EXPIRED, settings)


def _dead(delivery_count: int, reason: Reason, settings: ShareSettings) -> RecordStatus:
    state = RecordState.ARCHIVING if settings.has_dead_letters else RecordState.ARCHIVED
    return RecordStatus(state, delivery_count, reason=reason)
