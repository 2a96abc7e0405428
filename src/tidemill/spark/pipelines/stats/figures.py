"""The figures of a topic, which the aggregations compute and the charts and the page show."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFigures:
    """Counts and sizes of a set of records.  A record's size is the bytes of its key and value, without headers."""

    records: int = 0
    bytes: int = 0
    without_key: int = 0  # records whose key is null
    size_min: int = 0
    size_max: int = 0
    size_p50: int = 0  # the median: the smallest size that half of the records do not exceed
    size_p99: int = 0
    first_s: float | None = None  # the first and last record timestamp, in seconds since 1970; None: no record
    last_s: float | None = None

    @property
    def size_mean(self) -> float:
        return self.bytes / self.records if self.records else 0.0

    @property
    def span_s(self) -> float:
        return 0.0 if self.first_s is None or self.last_s is None else self.last_s - self.first_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFigures:
    partition: int
    start_offset: int
    end_offset: int  # exclusive
    sizes: SizeFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    key: bytes
    records: int
    bytes: int
    rank_by_records: int | None  # 1 is the top rank; None: below the ranks that are counted
    rank_by_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HashBucket:
    bucket: int
    records: int = 0
    bytes: int = 0
    keys: int = 0  # distinct keys


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeStep:
    """The records of one partition in one time step."""

    start_s: int
    partition: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The time steps that are drawn.  Steps without records are missing."""

    step_s: int  # length of a step in seconds
    steps: tuple[TimeStep, ...] = ()
    records_outside: int = 0  # records with outlying timestamps, which are not drawn

    def totals(self) -> Mapping[int, tuple[int, int]]:
        """Return the numbers of records and bytes in all partitions by the start of each time step, in time order."""
        found: dict[int, tuple[int, int]] = {}
        for step in sorted(self.steps, key=lambda it: it.start_s):
            records, size = found.get(step.start_s, (0, 0))
            found[step.start_s] = (records + step.records, size + step.bytes)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBin:
    """The records whose size is at least `from_bytes` and less than `to_bytes`."""

    from_bytes: int
    to_bytes: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFigures:
    topic: str
    total: SizeFigures
    partitions: tuple[PartitionFigures, ...]
    timeline: Timeline
    size_bins: tuple[SizeBin, ...]
    key_count: int  # distinct keys
    hot_keys: tuple[HotKey, ...]
    hash_buckets: tuple[HashBucket, ...]  # one for each of the 256 buckets

    def keys_by_records(self) -> list[HotKey]:
        ranked = [key for key in self.hot_keys if key.rank_by_records is not None]
        return sorted(ranked, key=lambda it: it.rank_by_records or 0)

    def keys_by_bytes(self) -> list[HotKey]:
        ranked = [key for key in self.hot_keys if key.rank_by_bytes is not None]
        return sorted(ranked, key=lambda it: it.rank_by_bytes or 0)
