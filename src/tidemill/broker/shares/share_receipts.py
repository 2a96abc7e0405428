"""ShareReceipts on the leader: records are acknowledged by receipts.

request ─▶ the share is open ─▶ decisions ─▶ committed, also those that were decided before ─▶ response
"""

from collections.abc import Sequence

from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.share_host import LOST, ShareHost
from tidemill.broker.shares.share_openings import opening_refused
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.peer.share_receipts import BY_POLICY, OF_GROUP, Request, Response
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.share.acknowledged_receipts import AcknowledgedReceipts, Delivery, Outcome, acknowledge_receipts
from tidemill.share.acknowledgement import AcknowledgementRefused
from tidemill.share.resolution import check_delay


class ShareReceipts(Pending[Response]):
    """Completes with the response to a ShareReceipts."""

    __slots__ = ("_asked", "_host", "_is_second", "_key", "_lock_ms", "_outcomes", "_request")

    def __init__(self, host: ShareHost, request: Request) -> None:
        super().__init__()
        self._host = host
        self._request = request
        self._key = ShareKey(request.group_id, request.topic_id, request.partition)
        self._asked: Sequence[int] = range(len(request.deliveries))  # the positions that are still to be acknowledged
        self._outcomes = [Outcome.UNKNOWN] * len(request.deliveries)
        self._is_second = False  # whether earlier decisions have been waited for
        self._lock_ms = 0
        try:
            self._lock_ms = _checked(host, request)
        except AcknowledgementRefused as refused:
            self._refuse(refused.code, str(refused))
        else:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge the records, or wait until that is possible and begin again."""
        try:
            partition = self._host.partition(self._key)
            self._host.check_writable(partition)
            led = self._host.share(self._key, partition, then=self._opened)
            if led is not None:
                self._acknowledge_in(led, partition)
        except KafkaError as refused:
            self._refuse(refused.error_code, refused.message)
        except AcknowledgementRefused as refused:
            self._refuse(refused.code, str(refused))

    def _opened(self, code: int) -> None:
        if code:
            refused = opening_refused(code, self._key.group)
            self._refuse(refused.error_code, refused.message)
        else:
            self._acknowledge()

    def _acknowledge_in(self, led: LedShare, partition: Partition) -> None:
        request, host = self._request, self._host
        had_room = led.leases.lock_room > 0
        listed = [request.deliveries[at] for at in self._asked]
        found = acknowledge_receipts(
            led.leases,
            request.acknowledge_type,
            [Delivery(it.offset, it.term, it.delivery_count, it.lease) for it in listed],
            delay_ms=None if request.delay_ms == BY_POLICY else request.delay_ms,
            lock_ms=self._lock_ms,
            term=partition.leader_epoch,
            end=partition.high_watermark,
            now=host.lock_now,
            wall=host.append_time(partition),
        )
        led.count_released(found.runs)
        if not had_room:
            host.wake(self._key)
        if found.runs or found.undecided:
            # Rows of a shard commit in order: when this one, even an empty one, has, the earlier decisions have, too.
            host.decide(led, found.runs, lambda is_committed: self._committed(found, is_committed))
        else:
            partition.shard.confirm_leadership(lambda leads: self._committed(found, leads))

    def _committed(self, found: AcknowledgedReceipts, is_committed: bool) -> None:
        if not is_committed:
            self._refuse(*LOST)
            return
        asked = list(self._asked)
        for at, outcome in zip(asked, found.outcomes, strict=True):
            self._outcomes[at] = outcome
        self._asked = [asked[at] for at in found.undecided]
        if self._asked and not self._is_second:
            self._is_second = True
            self._acknowledge()
        else:
            self.complete(Response(lock_ms=self._lock_ms, outcomes=self._outcomes))

    def _refuse(self, code: int, message: str | None) -> None:
        self.complete(Response(error_code=code, error_message=message))


def _checked(host: ShareHost, request: Request) -> int:
    """Return the duration of locks in ms.  Raise AcknowledgementRefused if the request is invalid."""
    if not request.group_id:
        raise AcknowledgementRefused(errors.INVALID_GROUP_ID, "a ShareReceipts needs a group id")
    if request.delay_ms != BY_POLICY:
        check_delay(request.delay_ms)
    if request.lock_ms == OF_GROUP:
        return host.configs.of(request.group_id).lock_ms
    return host.configs.checked_lock_ms(request.lock_ms)
