"""Resolves subscriptions and bounds to partitions and offsets by requests to the cluster.

It runs only on the driver.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tidemill.batches.batch import spans
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError, OffsetOutOfRange, UnknownTopic
from tidemill.client.group_offsets import GroupOffsets
from tidemill.client.offset_lookup import NO_MATCH, look_up
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.columnar import timer_topics
from tidemill.columnar.data_loss import Lost
from tidemill.columnar.offset_bound import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    AtTimestamps,
    BeforeEnd,
    BeforeNow,
    Committed,
    Everywhere,
    OffsetBound,
    Specific,
)
from tidemill.columnar.size_profile import SAMPLES_MAX, BatchSize, SizeProfile, sampled
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId

_LOG = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


class OffsetReader:
    """Resolves partitions and offsets.  It holds connections, so it is never pickled."""

    def __init__(self, options: SourceOptions, wall_clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._cluster = ClusterMetadata(options.connection)
        self._wall_clock = wall_clock

    def close(self) -> None:
        self._cluster.close()

    def partitions(self, *, is_missing_allowed: bool = False) -> list[TopicPartition]:
        """
        Return the current partitions of the subscription.

        Raise UnknownTopic for a missing topic or assigned partition, unless `is_missing_allowed`.
        """
        chosen = self._options.subscription
        if chosen.pattern is not None:
            self._cluster.refresh(None)
            topics = chosen.chosen_topics(self._cluster.topics())
        else:
            topics = chosen.chosen_topics(())
            self._cluster.refresh(topics)
        found = []
        for topic in topics:
            try:
                numbers = self._cluster.partitions(topic)
            except UnknownTopic:
                if not is_missing_allowed:
                    raise
                continue
            found += [TopicPartition(topic, number) for number in numbers]
        found = [partition for partition in found if chosen.chosen(partition)]
        missing = set(chosen.assignment) - set(found)
        if missing and not is_missing_allowed:
            gone = min(missing)
            raise UnknownTopic(gone.topic, f"option 'assign' has partition {gone.partition}, which does not exist")
        return found

    def topic_ids(self, topics: Iterable[str]) -> dict[str, TopicId | None]:
        """Return the id of each topic, as of the last call of `partitions`."""
        return {topic: self._cluster.topic_id(topic) for topic in topics}

    def not_timer(self, topics: Iterable[str]) -> tuple[str, str] | None:
        """
        Return the first topic that is not of kind timer, and a text that says so and the fix; None if all are.

        Raise RetriesExhausted if no broker responds.
        """
        return timer_topics.first_problem(
            self._cluster, list(topics), deadline_ms=self._cluster.settings.api_timeout_ms
        )

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the log start offsets."""
        return self._look_up(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """
        Return the end offsets.

        A new leader may return an end offset below the `known` one.  Such an offset is requested again and accepted
        only after `fetchOffset.numRetries` requests in total.
        """
        wanted = list(partitions)
        ends = self._look_up(dict.fromkeys(wanted, LATEST))
        for _ in range(self._options.offset_fetch_retries - 1):
            behind = [p for p in wanted if known is not None and ends[p] < known.get(p, 0)]
            if not behind:
                break
            self._pause()
            ends |= self._look_up(dict.fromkeys(behind, LATEST))
        return ends

    def resolve(self, bound: OffsetBound, partitions: Iterable[TopicPartition], *, is_start: bool) -> Offsets:
        """
        Return the offsets of `bound`, which is a start if `is_start` and otherwise an end.

        Raise ValueError if the bound names partitions other than `partitions`, or if a starting timestamp has no match.
        """
        wanted = list(partitions)
        match bound:
            case Everywhere(position):
                return self._look_up(dict.fromkeys(wanted, position))
            case Specific(offsets):
                _check_same(wanted, offsets, "startingOffsets" if is_start else "endingOffsets")
                symbolic = {p: offset for p, offset in offsets.items() if offset < 0}
                return {**offsets, **(self._look_up(symbolic) if symbolic else {})}
            case AtTimestamp(timestamp_ms):
                return self._at_timestamps(dict.fromkeys(wanted, timestamp_ms), is_start=is_start)
            case AtTimestamps(timestamps_ms):
                name = "startingOffsetsByTimestamp" if is_start else "endingOffsetsByTimestamp"
                _check_same(wanted, timestamps_ms, name)
                return self._at_timestamps(dict(timestamps_ms), is_start=is_start)
            case BeforeNow(milliseconds):
                found = self.first_since(int(self._wall_clock() * 1_000) - milliseconds, wanted)
                return {**self._look_up(dict.fromkeys(set(wanted) - set(found), LATEST)), **found}
            case BeforeEnd(offset_count):
                # Request the log start first: if retention raises it meanwhile, the result is still not below the older
                # start.
                starts = self.earliest(wanted)
                ends = self._look_up(dict.fromkeys(wanted, LATEST))
                return {partition: max(ends[partition] - offset_count, starts[partition]) for partition in wanted}
            case Committed(group):
                return self._committed(group, wanted)

    def first_since(self, timestamp_ms: int, partitions: Iterable[TopicPartition]) -> Offsets:
        """
        Return the offset of the first record at or after this timestamp; partitions without such a record are left out.
        """
        found = self._look_up(dict.fromkeys(partitions, max(timestamp_ms, 0)))
        return {partition: offset for partition, offset in found.items() if offset != NO_MATCH}

    def group_offsets(self, group: str, *, deadline_ms: int | None = None) -> GroupOffsets:
        """Return a GroupOffsets for `group` that uses the connections of this reader."""
        return GroupOffsets(self._cluster, group, deadline_ms=deadline_ms)

    def size_profiles(
        self, ranges: Iterable[tuple[TopicPartition, int, int]], *, samples_max: int = SAMPLES_MAX
    ) -> dict[TopicPartition, SizeProfile]:
        """
        Estimate the sizes of non-empty ranges (partition, start offset, end offset) from samples of their batches.

        Ranges whose batches cannot be sampled are left out.
        """
        fetcher = RawFetcher(self._cluster, deadline_ms=self._options.poll_timeout_ms)
        profiles = {
            partition: sampled(start, end, partial(_batch_size, fetcher, partition), samples_max=samples_max)
            for partition, start, end in ranges
            if start < end
        }
        return {partition: profile for partition, profile in profiles.items() if profile is not None}

    def _committed(self, group: str, wanted: list[TopicPartition]) -> Offsets:
        committed = self.group_offsets(group).committed(wanted)
        missing = [partition for partition in wanted if partition not in committed]
        if missing:
            _LOG.warning(
                "group %s has no committed offset for %s, so these partitions are at their earliest offset",
                group,
                _names(missing),
            )
        ends = self.latest(committed, known=committed)
        for partition in sorted(committed):
            if committed[partition] > ends[partition]:
                what = (
                    f"Group {group!r} has committed offset {committed[partition]} of {_names([partition])}, which is "
                    f"after the end {ends[partition]}: the topic was deleted and created again."
                )
                self._options.data_loss.apply(what, Lost(*partition))
                missing.append(partition)
        return {**committed, **self.earliest(missing)}

    def _at_timestamps(self, timestamps: Offsets, *, is_start: bool) -> Offsets:
        found = self._look_up(timestamps)
        unmatched = [partition for partition, offset in found.items() if offset == NO_MATCH]
        if unmatched and is_start and not self._options.is_latest_when_no_timestamp_matches:
            first = min(unmatched)
            raise ValueError(
                f"No offset matched from request of topic-partition {first.topic}-{first.partition} and timestamp "
                f"{timestamps[first]}: use an earlier timestamp, or startingOffsetsByTimestampStrategy=latest"
            )
        return {**found, **self._look_up(dict.fromkeys(unmatched, LATEST))}

    def _look_up(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """
        Look up offsets, in at most `fetchOffset.numRetries` attempts, each of which waits for leader elections to end.
        """
        if not wanted:
            return {}
        attempts_left = self._options.offset_fetch_retries
        while True:
            try:
                return look_up(self._cluster, wanted)
            except UnknownTopic:
                raise
            except ClientError as error:
                attempts_left -= 1
                if attempts_left <= 0:
                    raise
                _LOG.warning("offsets could not be fetched, %d attempts left: %s", attempts_left, error)
                self._pause()

    def _pause(self) -> None:
        time.sleep(self._options.offset_fetch_retry_interval_ms / 1_000)


def _batch_size(fetcher: RawFetcher, partition: TopicPartition, offset: int) -> BatchSize | None:
    """Return the size of the data batch that contains this offset; None if it does not exist or no longer exists."""
    try:
        for run in fetcher.batches(partition, offset, offset + 1):
            for _, size, header in spans(run):
                return BatchSize(header.base_offset, header.end_offset, size)
    except (OffsetOutOfRange, UnknownTopic):
        pass  # The read of this range will report the data loss.
    return None


def _check_same(partitions: list[TopicPartition], named: Mapping[TopicPartition, int], option: str) -> None:
    if set(partitions) != set(named):
        symbols = "" if "Timestamp" in option else " Use -1 for latest, -2 for earliest."
        raise ValueError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions.{symbols} "
            f"Specified: {_names(named)}. Assigned: {_names(partitions)}."
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))
