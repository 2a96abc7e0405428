"""ShareResolve on the leader: acknowledgements from consumers without a session, and from operators.

request ─▶ the share is open ─▶ earlier decisions are committed ─▶ decisions ─▶ committed ─▶ response
"""

from typing import Final

from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.share_host import LOST, ShareHost
from tidemill.broker.shares.share_openings import opening_refused, shares_of
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.peer.share_resolve import BY_POLICY, NOT_LISTED, Request, Response
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.share.acknowledgement import (
    AcknowledgedRange,
    Acknowledgement,
    AcknowledgementBatch,
    AcknowledgementRefused,
    acknowledged_ranges,
)
from tidemill.share.lone_member import member_without_session
from tidemill.share.resolution import Resolution, check_delay, resolve_held, resolve_unheld

_TYPES: Final = frozenset(Acknowledgement)


class ShareResolution(Pending[Response]):
    """Completes with the response to a ShareResolve."""

    __slots__ = ("_earlier", "_held_as", "_host", "_key", "_ranges", "_request")

    def __init__(self, host: ShareHost, request: Request) -> None:
        super().__init__()
        self._host = host
        self._request = request
        self._key = ShareKey(request.group_id, request.topic_id, request.partition)
        self._ranges: list[AcknowledgedRange] = []
        self._held_as = None if request.held_as == NOT_LISTED else request.held_as
        self._earlier: Resolution | None = None  # what was resolved before the wait for earlier decisions
        try:
            self._ranges = _checked(request)
        except AcknowledgementRefused as refused:
            self._refuse(refused.code, str(refused))
        else:
            self._resolve()

    def _resolve(self) -> None:
        """Resolve the records, or wait until that is possible and begin again."""
        try:
            partition = self._host.partition(self._key)
            self._host.check_writable(partition)
            if self._request.is_trial and shares_of(partition).of_group(self._key.group) is None:
                self._count_untouched(partition)
                return
            led = self._host.share(self._key, partition, may_create=self._is_operator, then=self._opened)
            if led is not None:
                self._resolve_in(led, partition)
        except KafkaError as refused:
            self._refuse(refused.error_code, refused.message)
        except AcknowledgementRefused as refused:
            self._refuse(refused.code, str(refused))

    def _opened(self, code: int) -> None:
        if code:
            refused = opening_refused(code, self._key.group)
            self._refuse(refused.error_code, refused.message)
        else:
            self._resolve()

    def _resolve_in(self, led: LedShare, partition: Partition) -> None:
        had_room = led.leases.lock_room > 0
        resolution = self._decided(led, partition)
        if not self._is_operator:
            led.count_released(resolution.runs)
        if not had_room:
            self._host.wake(self._key)
        if self._request.is_trial:
            partition.shard.confirm_leadership(lambda leads: self._counted(resolution, leads))
        elif resolution.runs or resolution.undecided:
            # Rows of a shard commit in order: when this one, even an empty one, has, the earlier decisions have, too.
            self._host.decide(led, resolution.runs, lambda is_committed: self._committed(resolution, is_committed))
        elif led.leases.settings.is_confirmed:  # a renewed lock must not outlive this leader's term
            partition.shard.confirm_leadership(lambda leads: self._committed(resolution, leads))
        else:
            self._committed(resolution, True)

    def _decided(self, led: LedShare, partition: Partition) -> Resolution:
        request, host, end = self._request, self._host, partition.high_watermark
        wall = host.append_time(partition)
        delay_ms = None if request.delay_ms == BY_POLICY else request.delay_ms
        if self._is_operator:
            ranges, is_trial = self._ranges, request.is_trial
            return resolve_unheld(led.leases, ranges, delay_ms=delay_ms, end=end, wall=wall, is_trial=is_trial)
        return resolve_held(
            led.leases,
            member_without_session(request.member_id),
            self._ranges,
            held_as=self._held_as,
            delay_ms=delay_ms,
            end=end,
            now=host.lock_now,
            wall=wall,
        )

    def _count_untouched(self, partition: Partition) -> None:
        """Complete the trial of a group that has not used the partition: it has finished nothing."""
        start, end = partition.log_start, partition.high_watermark
        sizes = (min(one.end, end) - max(one.first, start) for one in self._ranges)
        self.complete(Response(resolved=sum(size for size in sizes if size > 0)))

    @property
    def _is_operator(self) -> bool:
        return not self._request.member_id

    def _committed(self, resolution: Resolution, is_committed: bool) -> None:
        if is_committed and self._earlier is None and resolution.undecided:
            self._earlier = resolution
            self._ranges, self._held_as = resolution.undecided, None
            self._resolve()
        else:
            self._counted(resolution, is_committed)

    def _counted(self, resolution: Resolution, is_committed: bool) -> None:
        if not is_committed:
            self._refuse(*LOST)
            return
        held = resolution.held + sum(one.end - one.first for one in resolution.undecided)
        earlier = self._earlier or Resolution()
        self.complete(
            Response(
                resolved=earlier.resolved + resolution.resolved,
                finished=earlier.finished + resolution.finished,
                held=earlier.held + held,
            )
        )

    def _refuse(self, code: int, message: str | None) -> None:
        self.complete(Response(error_code=code, error_message=message))


def _checked(request: Request) -> list[AcknowledgedRange]:
    """Return the ranges that a request names.  Raise AcknowledgementRefused if the request is invalid."""
    if not request.group_id:
        raise AcknowledgementRefused(errors.INVALID_GROUP_ID, "a ShareResolve needs a group id")
    if request.is_trial and request.member_id:
        raise AcknowledgementRefused(errors.INVALID_REQUEST, "a trial of a consumer: only an operator sends one")
    if request.delay_ms != BY_POLICY:
        check_delay(request.delay_ms)
    if request.held_as != NOT_LISTED and (request.held_as not in _TYPES or not request.member_id):
        raise AcknowledgementRefused(
            errors.INVALID_REQUEST, f"held_as {request.held_as}: a consumer sends 0 to 4, an operator holds no records"
        )
    return acknowledged_ranges(
        [AcknowledgementBatch(it.first_offset, it.last_offset + 1, it.acknowledge_types) for it in request.batches],
        may_renew=True,
    )
