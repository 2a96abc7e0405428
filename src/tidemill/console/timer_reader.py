"""Reads what waits in a timer topic from the leaders of its partitions: how much, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.failures import ClientError
from tidemill.client.timer_client import TimerClient
from tidemill.model.duration import parse_duration_ms

BUCKETS: Final = ("1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d", "30d")
LENGTHS_MS: Final = [parse_duration_ms(it) or 0 for it in BUCKETS]
LABELS: Final = (f"within {BUCKETS[0]}", *(f"{first} to {last}" for first, last in pairwise(BUCKETS)), "after 30d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The records that are due in a span of time from now on."""

    label: str
    count: int
    width: float  # of its bar, in percent of the longest


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRecords:
    waiting: int
    size_bytes: int  # about
    next_due_ms: int | None  # None: nothing waits
    buckets: Sequence[Bucket]


def read_waiting(
    settings: ConnectionSettings, topic: str, wall_ms: int
) -> tuple[WaitingRecords | None, tuple[str, ...]]:
    """Return what waits in a timer topic, or None and why it is not known.  `wall_ms` is the present."""
    cluster = ClusterMetadata(settings)
    try:
        client = TimerClient(cluster, deadline_ms=settings.api_timeout_ms)
        rows = client.stats(topic)
        counts = client.histogram(topic, [wall_ms + it for it in LENGTHS_MS])
    except ClientError as error:
        return None, (f"What waits is not known: {error}",)
    finally:
        cluster.close()
    greatest = max(*counts, 1)
    found = WaitingRecords(
        waiting=sum(it.waiting for it in rows),
        size_bytes=sum(it.waiting_bytes for it in rows),
        next_due_ms=min((it.next_due_ms for it in rows if it.next_due_ms is not None), default=None),
        buckets=[
            Bucket(label=label, count=count, width=round(count * 100 / greatest, 2))
            for label, count in zip(LABELS, counts, strict=True)
        ],
    )
    return found, ()
