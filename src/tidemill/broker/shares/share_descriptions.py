"""ShareDescribe on the leader: how far groups have processed partitions.

request ─▶ leadership is confirmed ─▶ counts, on the event loop ─▶ timestamp of the oldest record, off the loop ─▶
response
"""

from collections.abc import Callable
from functools import partial

from tidemill.batches.batch import read_header
from tidemill.batches.records import timestamp_from
from tidemill.broker.machine import Machine
from tidemill.broker.shares.led_share import ShareKey
from tidemill.broker.shares.share_host import ShareHost
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import errors
from tidemill.model.dead_letters import is_redrive
from tidemill.model.errors import KafkaError
from tidemill.peer.share_describe import Request, Response
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.share.progress import progress
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged

Described = Response.Share


class ShareDescriptions(Pending[Response]):
    """Completes with the response to a ShareDescribe."""

    __slots__ = ("_host", "_left", "_machine", "_shares")

    def __init__(self, host: ShareHost, machine: Machine, request: Request) -> None:
        super().__init__()
        self._host = host
        self._machine = machine
        self._shares = [Described(error_code=errors.NOT_LEADER_OR_FOLLOWER) for _ in request.partitions]
        self._left = len(self._shares)
        if not self._left:
            self.complete(Response())
        for at, it in enumerate(request.partitions):
            self._describe(at, ShareKey(request.group_id, it.topic_id, it.partition))

    def _describe(self, at: int, key: ShareKey) -> None:
        try:
            partition = self._host.partition(key)
        except KafkaError as refused:
            self._shares[at].error_code = refused.error_code
            self._described(at, self._shares[at])
        else:
            partition.shard.confirm_leadership(partial(self._confirmed, at, key, partition))

    def _confirmed(self, at: int, key: ShareKey, partition: Partition, leads: bool) -> None:
        if not leads:
            self._described(at, self._shares[at])
            return
        described, start, end = _counted(self._host, key, partition), partition.log_start, partition.high_watermark
        start = max(described.start, start)
        if described.start < 0 or start >= end:
            self._described(at, described)
            return

        def found(oldest_ms: int) -> None:
            described.oldest_ms = oldest_ms
            self._described(at, described)

        self._machine.opening_jobs.submit(_timestamp_reader(partition, start, end), found, self.fail)

    def _described(self, at: int, share: Described) -> None:
        self._shares[at] = share
        self._left -= 1
        if not self._left:
            self.complete(Response(shares=self._shares))


def _counted(host: ShareHost, key: ShareKey, partition: Partition) -> Described:
    end = partition.high_watermark
    share = shares_of(partition).of_group(key.group)
    if share is None:
        return Described(leader_epoch=partition.leader_epoch, end=end)
    led = host.led(key)
    if led is not None and led.share is not share:
        led = None  # it belongs to an earlier incarnation, which the next fetch forgets
    counts = progress(share, None if led is None else led.leases, end, host.wall_ms)
    finished = sum(run.end - run.first for run in share.runs if run.value.is_finished)
    return Described(
        leader_epoch=partition.leader_epoch,
        start=share.start,
        lag=max(end - share.start - finished, 0),  # KIP-1226
        end=end,
        available=counts.available,
        delayed=counts.delayed,
        held=counts.held,
        archiving=counts.archiving,
        expired_unread=0 if is_redrive(key.group) else share.expired_unread,
        blocked_by=None if led is None else led.blocked_by,
        incarnation=share.incarnation,
    )


def _timestamp_reader(partition: Partition, offset: int, end: int) -> Callable[[], int]:
    """Return a job that reads the timestamp of the record at `offset`; -1 if it cannot be read."""

    def read() -> int:
        try:
            found = partition.log.read(offset, 1, end, may_wait=True)
            if found is None or not found[0]:
                return -1
            header = read_header(found[0][0])
            if header.is_log_append_time or header.is_control:
                return header.max_timestamp
            oldest_ms = timestamp_from(found[0][0], offset)
        except (SegmentDamaged, OffsetGone, ValueError):
            return -1  # retention has removed the record, or it is damaged, which fetches report
        return header.max_timestamp if oldest_ms is None else oldest_ms

    return read
