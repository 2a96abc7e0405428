"""A consumer without a share session, whose ShareReceive asks for records of one partition."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidemill.broker.request.delayed_share_fetch import Failures, Fetched
from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.share_host import ShareHost
from tidemill.broker.shares.share_openings import is_final, opening_refused
from tidemill.broker.shares.share_reads import ReadRange, ranges_to_read
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.peer.share_receipts import OF_GROUP
from tidemill.peer.share_receive import Request, Response
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.share.acquisition import BatchesRead, FetchLimits, ShareFetched
from tidemill.share.claim import Acquired
from tidemill.share.lone_member import member_without_session
from tidemill.share.share_settings import Mode


class LoneConsumer:
    """Implements `delayed_share_fetch.ShareConsumer`.  What the consumer holds already comes before other records."""

    is_open: Final = True  # nothing but time ends the locks of a consumer without a session

    def __init__(self, host: ShareHost, request: Request) -> None:
        self._host = host
        self.key = ShareKey(request.group_id, request.topic_id, request.partition)
        self.member = member_without_session(request.member_id, request.lease)
        self._lease = request.lease
        self._lock_ms = None if request.lock_ms == OF_GROUP else host.configs.checked_lock_ms(request.lock_ms)
        self._has_bytes = request.max_bytes > 0
        self._refusal: KafkaError | None = None  # why the share cannot be opened

    def held(self) -> "Held":
        """Return what the consumer holds, with renewed locks and without the records' bytes, once the share is open."""
        return Held(self)

    def answer_held(self, held: "Held") -> None:
        """Complete `held`, unless the share has yet to be opened."""
        try:
            led = self._host.share(self.key, self._host.partition(self.key), may_create=True, then=held.opened)
        except KafkaError as refused:
            held.refuse(refused)
        else:
            if led is not None:
                held.complete(self._acquired(self._renewed(led)))

    def when_ready(self, ready: Callable[[], None]) -> None:
        ready()

    def share(self, key: ShareKey, partition: Partition) -> LedShare | None:
        if self._refusal is not None:
            raise self._refusal
        return self._host.share(key, partition, may_create=True, then=self._opened)

    def _opened(self, code: int) -> None:
        if is_final(code):
            self._refusal = opening_refused(code, self.key.group)
            self._host.wake(self.key)

    def wanted(self, led: LedShare, records_max: int, bytes_max: int, wall: int) -> Sequence[ReadRange]:
        held = next(led.leases.held_by(self.member), None)
        if held is not None:  # the consumer gets all of what it holds that fits
            return [ReadRange(held.first, led.partition.high_watermark, max(bytes_max, 1))]
        return ranges_to_read(led, self.member, records_max, bytes_max, wall)

    def wanted_bytes(self, led: LedShare, read: BatchesRead, enough: int, wall: int) -> int:
        return read.held_bytes(led.leases, self.member) or read.available_bytes(led.leases, wall, enough)

    def acquire(self, led: LedShare, read: BatchesRead, limits: FetchLimits) -> ShareFetched:
        if not self._has_bytes:
            if held := self._renewed(led):
                return ShareFetched([], held, is_repeated=True)
            return self._acquire_new(led, read, limits)._replace(records=[])
        if read.held_bytes(led.leases, self.member):
            return read.acquire_again(led.leases, self.member, now=self._host.lock_now, lock_ms=self._lock_ms)
        return self._acquire_new(led, read, limits)

    def _acquire_new(self, led: LedShare, read: BatchesRead, limits: FetchLimits) -> ShareFetched:
        now, wall = self._host.lock_now, self._host.wall_ms
        found = read.acquire(led.leases, self.member, limits, now=now, wall=wall, lock_ms=self._lock_ms)
        led.count_acquired(found.acquired)
        return found

    def _renewed(self, led: LedShare) -> list[Acquired]:
        """Renew the locks of all records that the consumer holds, and return the records."""
        held = list(led.leases.held_by(self.member))
        led.leases.renew(self.member, held, now=self._host.lock_now, lock_ms=self._lock_ms)
        return held

    def response(self, fetched: Fetched, failures: Failures) -> Response:
        for problem in failures.values():
            return Response(error_code=problem.error_code, error_message=problem.message)
        for _, found in fetched.values():
            return self._acquired(found.acquired, found.records)
        if self._host.led(self.key) is None:
            unopened = opening_refused(errors.COORDINATOR_NOT_AVAILABLE, self.key.group)
            return Response(error_code=unopened.error_code, error_message=unopened.message)
        return self._acquired([])

    def _acquired(self, acquired: Iterable[Acquired], records: Sequence[memoryview] = ()) -> Response:
        config = self._host.configs.of(self.key.group)
        led = self._host.led(self.key)
        return Response(
            lock_ms=config.lock_ms if self._lock_ms is None else self._lock_ms,
            acquired=[
                Response.AcquiredRecords(first_offset=first, last_offset=end - 1, delivery_count=count)
                for first, end, count in acquired
            ],
            records=records,
            is_exclusive=config.mode == Mode.EXCLUSIVE,
            withheld_ms=0 if led is None else led.withheld_ms(self._host.lock_now),
            term=led.partition.leader_epoch if led is not None and self._lease else -1,
        )


class Held(Pending[Response]):
    """The response to a ShareReceive that acquires nothing."""

    __slots__ = ("_consumer",)

    def __init__(self, consumer: LoneConsumer) -> None:
        super().__init__()
        self._consumer = consumer
        consumer.answer_held(self)

    def opened(self, code: int) -> None:
        """The share is open, or could not be opened."""
        if code:
            self.refuse(opening_refused(code, self._consumer.key.group))
        else:
            self._consumer.answer_held(self)

    def refuse(self, refused: KafkaError) -> None:
        self.complete(Response(error_code=refused.error_code, error_message=refused.message))
