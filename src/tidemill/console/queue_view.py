"""The data about queues that the pages show.  A queue is a share group's use of a topic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidemill.console.cluster_view import PartitionRow
from tidemill.peer.share_describe import Response

Described = Response.Share

PARTS: Final = (("available", "available"), ("held", "held"), ("delayed", "delayed"), ("archiving", "dead, waiting"))
"""The fields of `Described` that a bar shows, and what they are called."""

BAR_WIDTH: Final = 100
BAR_PART_MIN: Final = 2  # so that a few dead records among millions are seen


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePartition:
    row: PartitionRow
    share: Described | None  # None if its leader did not answer

    @property
    def state(self) -> Described | None:
        """The state of the group's share; None if it is unknown, or if the group has not read the partition yet."""
        return self.share if self.share is not None and self.share.start >= 0 else None

    @property
    def oldest_ms(self) -> int | None:
        return None if self.state is None or self.state.oldest_ms < 0 else self.state.oldest_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    group_id: str
    topic: str
    partitions: Sequence[QueuePartition]  # none if the topic is gone, or if the page shows too many partitions

    def total(self, name: str) -> int | None:
        """Return the sum of a field over the partitions; None unless the state of each is known."""
        shares = [it.share for it in self.partitions]
        known = [share for share in shares if share is not None]
        if not known or len(known) < len(shares):
            return None
        return sum(_number(share, name) for share in known)

    @property
    def oldest_ms(self) -> int | None:
        return min((it.oldest_ms for it in self.partitions if it.oldest_ms is not None), default=None)

    @property
    def blocked_by(self) -> Sequence[str]:
        """Why available records are not delivered; no reason twice."""
        return sorted({it.state.blocked_by for it in self.partitions if it.state is not None and it.state.blocked_by})


class BarPart(NamedTuple):
    """A part of a bar whose whole width is `BAR_WIDTH`."""

    name: str  # of the field in `Described`, and of the style
    x: float
    width: float


def bar(source: Queue | Described | None) -> list[BarPart]:
    """Return how a bar divides a queue's records, or those of one partition.  Without records, it has no parts."""
    if source is None:
        return []
    counts = {name: _count(source, name) for name, _ in PARTS}
    whole = sum(counts.values())
    shown = {name: max(count / whole, BAR_PART_MIN / BAR_WIDTH) for name, count in counts.items() if count}
    return list(_laid_out(shown))


def _laid_out(shares: dict[str, float]) -> Iterator[BarPart]:
    x, whole = 0.0, sum(shares.values())
    for name, share in shares.items():
        width = BAR_WIDTH * share / whole
        yield BarPart(name, round(x, 2), round(width, 2))
        x += width


def described_bar(source: Queue | Described | None) -> str:
    """Return what a bar shows, in words."""
    if source is None:
        return "unknown"
    return ", ".join(f"{_count(source, name):,} {label}" for name, label in PARTS)


def _count(source: Queue | Described, name: str) -> int:
    return (source.total(name) or 0) if isinstance(source, Queue) else _number(source, name)


def _number(share: Described, name: str) -> int:
    number: int = getattr(share, name)
    return max(number, 0)  # the share of a partition that the group has not read has -1 for some fields
