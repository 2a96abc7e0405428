"""Acknowledgements from a consumer without a share session, and from an operator.

Neither is refused because some of the records are in another state: the result says what has become of how many.  So a
request whose response was lost can be repeated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidemill.model import errors
from tidemill.model.back_off import DELAY_MS_MAX
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement, AcknowledgementRefused
from tidemill.share.claim import Claim, Decided, Held
from tidemill.share.interval_map import Interval
from tidemill.share.leases import Leases
from tidemill.share.lone_member import consumer_of
from tidemill.share.outcome import after_acknowledgement
from tidemill.share.record_status import RecordState, RecordStatus, Run

_OF_OPERATORS: Final = frozenset({Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT})


@dataclass(slots=True)
class Resolution:
    """What has become of the records in a request.  Available records that it may not change are not counted."""

    runs: list[Run] = field(default_factory=list)  # the decisions, which the caller proposes
    resolved: int = 0  # records whose status or lock this request changes
    finished: int = 0  # records that were finished, or dead, before
    held: int = 0  # records that another consumer holds
    undecided: list[AcknowledgedRange] = field(default_factory=list)  # with an earlier decision that is not committed

    def _count(self, one: Interval[Claim | RecordStatus], kind: int) -> None:
        """Count records that the request does not change."""
        count = one.end - one.first
        if isinstance(one.value, Held):
            self.held += count
        elif isinstance(one.value, Decided):
            self.undecided.append(AcknowledgedRange(one.first, one.end, kind))
        elif one.value.state != RecordState.AVAILABLE:
            self.finished += count


def resolve_held(
    leases: Leases,
    member: str,
    ranges: Sequence[AcknowledgedRange],
    *,
    held_as: int | None,
    delay_ms: int | None,
    end: int,
    now: int,
    wall: int,
) -> Resolution:
    """
    Acknowledge those records in `ranges`, below the offset `end`, that a consumer holds, also with receipts.  Unless
    `held_as` is None, it is the type for all others that the consumer holds without receipts.

    `delay_ms` is the time until released records are available; None: as the group's back-off says.  Raise
    AcknowledgementRefused if a lock cannot be renewed.
    """
    for one in ranges:
        leases.check_type(one.type)  # before anything changes
    resolution = Resolution()
    by_holder: dict[str, list[AcknowledgedRange]] = {}  # a consumer with receipts has a name for each receive request
    for first, range_end, kind in _below(ranges, end):
        resolution.finished += _below_start(leases, first, range_end)
        for known in leases.within(first, range_end):
            if isinstance(known.value, Held) and consumer_of(known.value.member) == member:
                by_holder.setdefault(known.value.member, []).append(AcknowledgedRange(known.first, known.end, kind))
            else:
                resolution._count(known, kind)
    if held_as is not None:
        leases.check_type(held_as)
        by_holder[member] = sorted([*by_holder.get(member, ()), *_others(leases, member, ranges, held_as)])
    for holder, acknowledged in by_holder.items():
        resolution.runs += leases.acknowledge(holder, acknowledged, now=now, wall=wall, delay_ms=delay_ms)
        resolution.resolved += sum(one.end - one.first for one in acknowledged)
    resolution.runs.sort(key=lambda run: run.first)
    return resolution


def resolve_unheld(
    leases: Leases,
    ranges: Sequence[AcknowledgedRange],
    *,
    delay_ms: int | None,
    end: int,
    wall: int,
    is_trial: bool = False,
) -> Resolution:
    """
    Decide for an operator what becomes of the records in `ranges`, below the offset `end`, that no consumer holds.  In
    a trial, count them, and decide nothing.

    A released record keeps its delivery count; `delay_ms` replaces its release time.  Raise AcknowledgementRefused for
    acknowledgements of other types than accept, release and reject, and if the share would track too many runs.
    """
    if unknown := {one.type for one in ranges} - _OF_OPERATORS:
        raise AcknowledgementRefused(
            errors.INVALID_REQUEST, f"acknowledgement type {min(unknown)}: an operator sends 1, 2 or 3"
        )
    resolution = Resolution()
    decided: list[Run] = []
    release_at = wall + delay_ms if delay_ms else 0
    for first, range_end, kind in _below(ranges, end):
        resolution.finished += _below_start(leases, first, range_end)
        for one in leases.within(first, range_end):
            if not isinstance(one.value, RecordStatus) or one.value.state != RecordState.AVAILABLE:
                resolution._count(one, kind)
                continue
            resolution.resolved += one.end - one.first
            status = _status_for_operator(leases, one.value, kind, release_at)
            if status != one.value:
                decided.append(Interval(one.first, one.end, status))
    if not is_trial:
        _check_room(leases, decided)
        resolution.runs = [leases.decide(*one) for one in decided]
    return resolution


def check_delay(delay_ms: int) -> None:
    """Raise AcknowledgementRefused for a delay that is negative or too long."""
    if not 0 <= delay_ms <= DELAY_MS_MAX:
        raise AcknowledgementRefused(
            errors.INVALID_REQUEST, f"a delay of {delay_ms} ms: delays are 0 to {DELAY_MS_MAX} ms (7 days)"
        )


def _status_for_operator(leases: Leases, before: RecordStatus, kind: int, release_at: int) -> RecordStatus:
    if kind == Acknowledgement.RELEASE:
        return RecordStatus(RecordState.AVAILABLE, before.delivery_count, release_at)
    return after_acknowledgement(kind, before.delivery_count, leases.settings)


def _check_room(leases: Leases, decided: Sequence[Run]) -> None:
    if not leases.has_room_for(decided):
        raise AcknowledgementRefused(
            errors.POLICY_VIOLATION,
            f"the share would track more than {leases.settings.tracked_max} runs of records, the limit "
            "(tidemill.share.max.tracked, unless the group sends dead letters back): first resolve the records from "
            f"offset {leases.start} on, without gaps",
        )


def _below(ranges: Sequence[AcknowledgedRange], end: int) -> Iterator[AcknowledgedRange]:
    return (one._replace(end=min(one.end, end)) for one in ranges if one.first < end)


def _below_start(leases: Leases, first: int, end: int) -> int:
    """Return how many of the offsets are below the share's start, and so finished."""
    return max(min(end, leases.start) - first, 0)


def _others(leases: Leases, member: str, ranges: Sequence[AcknowledgedRange], kind: int) -> Iterator[AcknowledgedRange]:
    """Yield what a consumer holds outside of `ranges`, which ascend."""
    for first, end, _ in list(leases.held_by(member)):
        for listed in ranges:
            if listed.end <= first:
                continue
            if listed.first >= end:
                break
            if first < listed.first:
                yield AcknowledgedRange(first, listed.first, kind)
            first = listed.end
        if first < end:
            yield AcknowledgedRange(first, end, kind)
