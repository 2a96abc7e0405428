"""Acknowledges records by receipts, for consumers over HTTP.

A receipt names one delivery of one record.  It is valid while the consumer's lock lasts, and after a change of leaders,
which ends all locks, until the record is delivered again.  The new leader does not know of a delivery whose lock had
expired, and of the delivery after it, unless the expiry had committed; it takes the first one's receipt.
A request that is repeated, because its response was lost, has the same result.

    what the leader knows of the record             accept    reject     release    renew
    held, by this delivery                          applied   applied    applied    applied
    decided, not committed                          the caller waits until it is, and asks again
    available, as this delivery has left it         expired   expired    ok         expired
    available, delivered by an earlier leader       applied   applied    applied    applied
    finished by this delivery                       ok if it was finished in this way
    below the share's start                         ok        ok         expired    expired
    anything else                                   expired

A delivery that is undone is available again, and does not count.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from tidemill.model import errors
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement, AcknowledgementRefused
from tidemill.share.claim import Acquired, Claim, Decided, Held
from tidemill.share.interval_map import Interval, joined
from tidemill.share.leases import Leases
from tidemill.share.lone_member import lease_of, member_without_session
from tidemill.share.record_status import Reason, RecordState, RecordStatus, Run

UNDO: Final = 5  # not an acknowledgement: the consumer has not got the record, so the delivery does not count
_KINDS: Final = (frozenset(Acknowledgement) - {Acknowledgement.GAP}) | {UNDO}
_FINISHING: Final = frozenset({Acknowledgement.ACCEPT, Acknowledgement.REJECT})


class Outcome(IntEnum):
    """What has become of a receipt.  The numbers are part of the protocol between brokers."""

    OK = 0
    EXPIRED = 1  # the record is, or was, delivered again, or another request has decided about it
    UNKNOWN = 2  # the leader has moved, or the decision is not committed: ask again


class Delivery(NamedTuple):
    """The part of a receipt that identifies a delivery of a record of the partition."""

    offset: int
    term: int
    delivery_count: int
    lease: int


@dataclass(slots=True)
class AcknowledgedReceipts:
    outcomes: list[Outcome]  # in the order of the request
    runs: list[Run] = field(default_factory=list)  # the decisions, which the caller proposes
    undecided: list[int] = field(default_factory=list)  # positions of receipts whose outcome is UNKNOWN until a commit


def acknowledge_receipts(
    leases: Leases,
    kind: int,
    deliveries: Sequence[Delivery],
    *,
    delay_ms: int | None,
    lock_ms: int | None,
    term: int,
    end: int,
    now: int,
    wall: int,
) -> AcknowledgedReceipts:
    """
    Accept, release, reject or renew the records of deliveries, as the leader of `term`; or undo the deliveries.

    `delay_ms` is the time until released records are available; None: as the group's back-off says.  `lock_ms` is the
    duration of renewed locks; None: the group's.  `end` is the high watermark.  Raise AcknowledgementRefused if a lock
    cannot be renewed.
    """
    if kind not in _KINDS:
        raise AcknowledgementRefused(errors.INVALID_REQUEST, f"acknowledgement type {kind}: a receipt takes 1 to 5")
    leases.check_type(kind)
    found = AcknowledgedReceipts([Outcome.EXPIRED] * len(deliveries))
    held: dict[str, list[Interval[int]]] = {}  # by member
    for at, one in enumerate(deliveries):
        if one.offset < leases.start or one.offset >= end:
            if one.offset < leases.start and kind in _FINISHING:
                found.outcomes[at] = Outcome.OK
            continue
        (known,) = leases.within(one.offset, one.offset + 1)
        if isinstance(known.value, Held):
            if (lease_of(known.value.member), known.value.delivery_count) == (one.lease, one.delivery_count):
                held.setdefault(known.value.member, []).append(Interval(one.offset, one.offset + 1, kind))
                found.outcomes[at] = Outcome.OK
        elif isinstance(known.value, Decided) and not known.value.is_available:
            found.outcomes[at] = Outcome.UNKNOWN
            found.undecided.append(at)
        elif kind == UNDO:
            continue  # nothing is to be undone
        elif _was_lost(known.value, one, term):
            found.outcomes[at] = Outcome.OK
            if kind == Acknowledgement.RENEW:
                again = [Acquired(one.offset, one.offset + 1, one.delivery_count)]
                leases.renew(member_without_session("", one.lease), again, now=now, lock_ms=lock_ms)
            else:
                found.runs.append(
                    leases.acknowledge_lost(one.offset, one.delivery_count, kind, wall=wall, delay_ms=delay_ms)
                )
        elif _is_done(known.value, kind, one):
            found.outcomes[at] = Outcome.OK
    for member, offsets in held.items():
        if kind == UNDO:
            undone = {it.first for it in offsets}
            leases.undo([it for it in _each(leases.held_by(member)) if it.first in undone])
            continue
        ranges = [AcknowledgedRange(*it) for it in joined(sorted(set(offsets)))]
        found.runs += leases.acknowledge(member, ranges, now=now, wall=wall, delay_ms=delay_ms, lock_ms=lock_ms)
    found.runs.sort(key=lambda run: run.first)
    return found


def _each(acquired: Iterable[Acquired]) -> Iterator[Acquired]:
    """Yield each record on its own."""
    for first, end, delivery_count in acquired:
        for offset in range(first, end):
            yield Acquired(offset, offset + 1, delivery_count)


def _status_of(known: Claim | RecordStatus) -> RecordStatus:
    assert not isinstance(known, Held), "the caller has handled it"
    return known.status if isinstance(known, Decided) else known


def _was_lost(known: Claim | RecordStatus, one: Delivery, term: int) -> bool:
    """Return whether an earlier leader made this delivery, and the record has not been delivered since."""
    status = _status_of(known)
    return one.term < term and status.state == RecordState.AVAILABLE and status.delivery_count == one.delivery_count - 1


def _is_done(known: Claim | RecordStatus, kind: int, one: Delivery) -> bool:
    """Return whether the record is as this request would have left it, because an earlier attempt did."""
    status = _status_of(known)
    if status.delivery_count != one.delivery_count:
        return False
    match kind:
        case Acknowledgement.ACCEPT:
            return status.state == RecordState.ACKNOWLEDGED
        case Acknowledgement.REJECT:
            return status.reason == Reason.REJECTED
        case Acknowledgement.RELEASE:
            return status.state == RecordState.AVAILABLE or status.reason == Reason.DELIVERY_LIMIT
    return False
