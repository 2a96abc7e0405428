"""SentCopies: the copies of replicas that one broker sends, and when each may send its next bytes.

Each copy has a token bucket, which fills at the rate of `rebalance/pacing`.  Bytes are taken out when they are sent,
even if the bucket then owes some, and nothing more is sent until it owes nothing.  So messages of any size pass, and
what is sent in the long run is exactly the rate.

A copy begins with its first message.  It ends when it is said to have ended and owes nothing, or when it has had
nothing to send for `IDLE_MS`; its share then goes to the others.
"""

from typing import Final, NamedTuple

from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.rebalance.pacing import send_rates

SHARE_MS: Final = 1_000  # how often the limit is shared out again
BURST_MS: Final = 100  # a bucket saves up as much as it gets in this time: a late timer must not cost throughput
IDLE_MS: Final = 5_000  # longer than a member needs to write a chunk and to ask for the next one
DECAY: Final = 4  # the ingest rate falls by at most this part a second, and rises at once: producers pause


class Copy(NamedTuple):
    """A copy of a replica, to a member that does not vote yet."""

    shard_id: ShardId
    to: ReplicaKey


class _Bucket:
    __slots__ = ("at_ms", "bytes", "has_ended", "rate", "used_ms")

    def __init__(self, now_ms: int) -> None:
        self.rate = 1  # bytes a second
        self.bytes = 0.0  # below zero: owed
        self.at_ms = now_ms  # when `bytes` was right
        self.used_ms = now_ms  # when the copy last sent, or wanted to send
        self.has_ended = False  # nothing is sent any more; what is owed is paid back before others get the share

    def fill(self, now_ms: int) -> None:
        grown = self.bytes + self.rate * (now_ms - self.at_ms) / 1_000
        self.bytes = min(grown, self.rate * BURST_MS / 1_000)
        self.at_ms = now_ms

    @property
    def wait_ms(self) -> int:
        return 0 if self.bytes >= 0 else -int(self.bytes * 1_000 // self.rate)


class _Ingest:
    """The bytes a second that are written to a shard."""

    __slots__ = ("rate", "written")

    def __init__(self) -> None:
        self.rate = 0
        self.written = 0  # since the limit was last shared out

    def measure(self, over_ms: int) -> None:
        lasting = self.rate - self.rate // DECAY if over_ms < 2 * SHARE_MS else 0
        self.rate = max(self.written * 1_000 // over_ms, lasting)
        self.written = 0


class SentCopies:
    def __init__(self) -> None:
        self.sent_bytes = 0  # of all copies, since this broker started
        self._buckets: dict[Copy, _Bucket] = {}
        self._ingest: dict[ShardId, _Ingest] = {}
        self._shared_ms: int | None = None
        self._limit = 1

    def is_sent(self, shard_id: ShardId) -> bool:
        """Whether replicas of the shard are copied, so that `written` is to be called."""
        return shard_id in self._ingest

    def written(self, shard_id: ShardId, size: int) -> None:
        """Count bytes that were appended to the shard."""
        ingest = self._ingest.get(shard_id)
        if ingest is not None:
            ingest.written += size

    def is_share_due(self, now_ms: int) -> bool:
        return self._shared_ms is None or now_ms - self._shared_ms >= SHARE_MS

    def share(self, limit_bytes_per_s: int, now_ms: int) -> None:
        """Share the limit out again.  Called before `wait_ms` whenever `is_share_due`."""
        over_ms = SHARE_MS if self._shared_ms is None else max(1, now_ms - self._shared_ms)
        self._shared_ms, self._limit = now_ms, limit_bytes_per_s
        for copy in [copy for copy, bucket in self._buckets.items() if _is_over(bucket, now_ms)]:
            del self._buckets[copy]
        copied = {copy.shard_id for copy in self._buckets}
        for shard_id in [*self._ingest]:
            if shard_id in copied:
                self._ingest[shard_id].measure(over_ms)
            else:
                del self._ingest[shard_id]
        self._set_rates(now_ms)

    def wait_ms(self, copy: Copy, now_ms: int) -> int:
        """Return how long the copy must wait before it sends its next bytes; 0 if it may send now."""
        bucket = self._bucket(copy, now_ms)
        bucket.fill(now_ms)
        bucket.used_ms, bucket.has_ended = now_ms, False
        return bucket.wait_ms

    def sent(self, copy: Copy, size: int, now_ms: int) -> None:
        """Count bytes that were sent."""
        self.sent_bytes += size
        bucket = self._bucket(copy, now_ms)
        bucket.fill(now_ms)
        bucket.bytes -= size
        bucket.used_ms, bucket.has_ended = now_ms, False

    def end(self, copy: Copy) -> None:
        """Note that nothing more is sent for the copy.  If it sends again, it goes on."""
        bucket = self._buckets.get(copy)
        if bucket is not None:
            bucket.has_ended = True

    def has_ended(self, copy: Copy) -> bool:
        bucket = self._buckets.get(copy)
        return bucket is None or bucket.has_ended

    def _bucket(self, copy: Copy, now_ms: int) -> _Bucket:
        bucket = self._buckets.get(copy)
        if bucket is None:
            bucket = self._buckets[copy] = _Bucket(now_ms)
            self._ingest.setdefault(copy.shard_id, _Ingest())
            self._set_rates(now_ms)
            bucket.bytes = bucket.rate * BURST_MS / 1_000  # a small copy never waits
        return bucket

    def _set_rates(self, now_ms: int) -> None:
        rates = send_rates(self._limit, {copy: self._ingest[copy.shard_id].rate for copy in self._buckets})
        for copy, bucket in self._buckets.items():
            bucket.fill(now_ms)
            bucket.rate = rates[copy]


def _is_over(bucket: _Bucket, now_ms: int) -> bool:
    bucket.fill(now_ms)
    return not bucket.wait_ms if bucket.has_ended else now_ms - bucket.used_ms >= IDLE_MS
