"""What a query with mode=share asks the brokers about the records of its group: acquire, renew and resolve."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.failures import ClientError, UnknownTopic
from tidemill.client.share_client import Acknowledgement, ShareClient
from tidemill.columnar.share_batch import Acquired, Holder, Progress
from tidemill.model.partition import TopicPartition

_NO_BYTES: Final = 0  # executors fetch the records
_NOTHING_NEW: Final = 0
_AT_ONCE: Final = 0  # Spark asks again
_PATIENCE_MS: Final = 5_000  # limits requests about held records: others wait for them, and they are repeated later
_CONTACT_MS: Final = 10_000  # limits the first request: a broker without share groups never answers it
_OPENS: Final = "spark"  # a member that acquires nothing


class ExclusiveGroup(ClientError):
    """The group gives the records of a partition to one member, but a query takes a new name for each acquisition."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"group={group} has tidemill.share.mode=exclusive, which lets one consumer at a time read a partition, but "
            "a query with mode=share is not one consumer: choose another group, or run tidemill configs set "
            f"--group {shlex.quote(group)} tidemill.share.mode=shared"
        )


class GroupLocks:
    """The locks of one group.  Not thread-safe.  The methods raise ClientError."""

    def __init__(self, cluster: ClusterMetadata, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._client = ShareClient(cluster)
        self._quick = ShareClient(cluster, deadline_ms=_PATIENCE_MS)

    @classmethod
    def opened(cls, settings: ConnectionSettings, group: str) -> "GroupLocks":
        """Return locks with connections of their own."""
        return cls(ClusterMetadata(settings), group)

    def close(self) -> None:
        self._cluster.close()

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        """
        Open the group's share of these partitions: the group starts there now, unless it has started before.

        Raise ClientError if the brokers do not serve share groups, or if the group is of another type or exclusive.
        """
        client = ShareClient(self._cluster, deadline_ms=_CONTACT_MS)
        for partition in partitions:
            self._receive(client, Holder(partition, _OPENS), _NOTHING_NEW)

    def progress(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Progress]:
        """Return what the group can acquire.  Topics that do not exist any more are left out."""
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        found: dict[TopicPartition, Progress] = {}
        for topic, numbers in by_topic.items():
            try:
                states = self._client.describe(self._group, topic, numbers)
            except UnknownTopic:
                continue
            found |= {it.partition: Progress(it.start is not None, it.available, it.end) for it in states}
        return found

    def acquire(self, holder: Holder, records_max: int) -> Acquired:
        """Acquire available records, or return those that the holder has."""
        return self._receive(self._client, holder, records_max)

    def held(self, holder: Holder) -> Acquired:
        """Return what the holder still has, with renewed locks."""
        return self._receive(self._client, holder, _NOTHING_NEW)

    def renew(self, holder: Holder) -> int:
        return self._resolve_held(holder, Acknowledgement.RENEW)

    def accept(self, holder: Holder) -> int:
        return self._resolve_held(holder, Acknowledgement.ACCEPT)

    def release(self, holder: Holder) -> int:
        """Release what the holder has.  It is available again after the group's back-off."""
        return self._resolve_held(holder, Acknowledgement.RELEASE)

    def resolve(self, holder: Holder, offsets: Iterable[int], kind: Acknowledgement, delay_ms: int | None) -> int:
        """
        Accept, release or reject records, and return how many of them the holder still had.

        `delay_ms` is the time until released records are available again; None: as the group's back-off says.
        """
        batches = [(first, last, kind) for first, last in _runs(sorted(set(offsets)))]
        partition, member = holder
        return self._client.resolve(partition, self._group, member, batches, delay_ms=delay_ms).resolved

    def _receive(self, client: ShareClient, holder: Holder, records_max: int) -> Acquired:
        partition, member = holder
        found = client.receive(
            partition, self._group, member, max_records=records_max, max_bytes=_NO_BYTES, wait_ms=_AT_ONCE
        )
        if found.is_exclusive:
            raise ExclusiveGroup(self._group)
        ranges = [(it.first, it.last + 1, it.delivery_count) for it in found.acquired]
        return Acquired(ranges, found.lock_ms, found.withheld_ms)

    def _resolve_held(self, holder: Holder, kind: Acknowledgement) -> int:
        partition, member = holder
        return self._quick.resolve(partition, self._group, member, held_as=kind).resolved


def _runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last offset of each run of consecutive offsets."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
