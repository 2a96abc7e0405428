"""ShardMeter: what one shard takes of this broker, measured from the counters of its partitions.

The process knows only the CPU time of all its threads together.  It is shared out among the shards by their `weight`:
each append and each read counts as 25 µs, and each KiB that is appended or read as 1 µs (`shard/partition`).  On a
follower only the appended bytes count.  Work for other purposes, such as groups or timers, is thus shared out as well.
"""

from itertools import islice
from typing import Final

from tidemill.broker.load.rate_average import RateAverage
from tidemill.model.broker_id import BrokerId, ReplicaKey
from tidemill.peer.load import ShardLoad
from tidemill.raft.status import MemberStatus
from tidemill.shard.shard import Shard

ENTRIES_MAX: Final = 1_000  # whose sizes are added up; further ones that a learner lacks count as large on average


class ShardMeter:
    """The averages of a shard that this broker leads or follows; one that it begins to lead has a new meter."""

    __slots__ = ("_appended", "_costs", "due_samples", "reported", "reported_at_ms", "shard", "size")

    def __init__(self, shard: Shard, now_us: int) -> None:
        self.shard = shard
        appended, cost, self.size = self._counters()  # the size in bytes, at the last sample
        self._appended = RateAverage(appended, now_us)
        self._costs = RateAverage(cost, now_us)
        # Only of a shard that this broker leads:
        self.due_samples = 0  # so many further samples are reported, whatever they are
        self.reported: ShardLoad | None = None  # the last report
        self.reported_at_ms = 0

    def _counters(self) -> tuple[int, int, int]:
        """Return the bytes appended and the costs of requests, since this process began, and the size in bytes."""
        appended = cost = size = 0
        for partition in self.shard.partitions.values():  # one plain loop: a broker may have 10,000 shards
            log = partition.log
            appended += log.appended_bytes
            cost += partition.cost
            for segment in log.segments:
                size += segment.size
        return appended, cost, size

    @property
    def weight(self) -> int:
        """The shard's part of the CPU time of this process, beside the weights of other shards."""
        return self._appended.per_second + self._costs.per_second

    def sample(self, now_us: int, window_us: int) -> None:
        appended, cost, self.size = self._counters()
        self._appended.sample(appended, now_us, window_us)
        self._costs.sample(cost, now_us, window_us)

    @property
    def rests(self) -> bool:
        """Whether the last sample has found what was reported before, and the rates are zero."""
        before = self.reported
        return (
            before is not None
            and before.size == self.size
            and self.weight == before.bytes_in == before.cpu == 0
            and before.is_measured
            and not before.learners
        )

    def report(self, in_sync: frozenset[BrokerId], cpu: int, weights: int) -> ShardLoad:
        """
        Return what the leader knows now.  `cpu` is the CPU time of the process, per mille, and `weights` the sum of the
        weights of all shards.
        """
        shard, replica = self.shard, self.shard.replica
        membership = replica.membership
        _, _, size = self._counters()
        return ShardLoad(
            shard_id=shard.shard_id,
            term=replica.term,
            size=size,
            is_measured=self._costs.is_known,
            bytes_in=self._appended.per_second,
            cpu=cpu * self.weight // weights if weights else 0,
            voters=membership.voters,
            learners=membership.learners,
            in_sync=in_sync,
            behind=tuple(self._behind(membership.learners, size)) if membership.learners else (),
        )

    def _behind(self, learners: tuple[ReplicaKey, ...], size: int) -> list[int]:
        members = self.shard.replica.status().members
        return [self._bytes_behind(learner, members.get(learner), size) for learner in learners]

    def _bytes_behind(self, learner: ReplicaKey, member: MemberStatus | None, size: int) -> int:
        """
        Return how many bytes a member lacks: the entries after those that it has told, or what it has not pulled yet of
        a snapshot; everything if it needs one and has not begun.
        """
        log = self.shard.log
        if member is not None and member.is_installing:
            missing = self.shard.missing_bytes(learner)
            return size if missing is None else min(missing, size)
        if member is None or member.is_damaged or member.match_index + 1 < log.first_index:
            return size
        missing = log.last_index - member.match_index
        if missing <= 0:
            return 0
        counted = min(missing, ENTRIES_MAX)
        counted_bytes = sum(entry.payload_bytes for entry in islice(reversed(log.entries), counted))
        return min(counted_bytes * missing // counted, size)
