"""Plans a batch read: which offsets of which partitions are read, and in which parts."""

from collections.abc import Callable

from tidemill.columnar.data_loss import Lost
from tidemill.columnar.offset_ranges import OffsetRange, divided
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.columnar.row_filter import RowFilter
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition

EVERY_ROW = RowFilter()


def plan(
    options: SourceOptions,
    row_filter: RowFilter = EVERY_ROW,
    make_offset_reader: Callable[[SourceOptions], OffsetReader] = OffsetReader,
) -> list[OffsetRange]:
    """
    Resolve the start and end of a batch read to offsets, once, and return the ranges to read.

    Raise ValueError if the options do not match the topics, DataLossError if records are missing and the options say
    that data loss fails the query, or ClientError if a request fails.
    """
    options.data_loss.prepare()
    reader = make_offset_reader(options)
    try:
        ranges = _ranges(reader, options, row_filter)
        profiles = None
        if options.bytes_per_partition_max is not None:
            profiles = reader.size_profiles((one.topic_partition, one.start_offset, one.end_offset) for one in ranges)
        return divided(
            ranges,
            partitions_min=options.partitions_min,
            records_per_partition_max=options.records_per_partition_max,
            bytes_per_partition_max=options.bytes_per_partition_max,
            profiles=profiles,
        )
    finally:
        reader.close()


def _ranges(reader: OffsetReader, options: SourceOptions, row_filter: RowFilter) -> list[OffsetRange]:
    partitions = reader.partitions()
    starts = reader.resolve(options.starting, partitions, is_start=True)
    ends = reader.resolve(options.ending, partitions, is_start=False)
    kept = [partition for partition in sorted(partitions) if row_filter.selects(partition)]
    # Look up the timestamp only after the end offsets: if a partition then has no match, no record before its end
    # offset matches.
    since = row_filter.timestamp_ms_min
    first = None if since is None else reader.first_since(since, kept)
    earliest = reader.earliest(kept)
    topic_ids = reader.topic_ids({partition.topic for partition in kept})
    ranges = []
    for partition in kept:
        start, end = row_filter.clipped(starts[partition], ends[partition])
        if first is not None:
            start = max(start, first.get(partition, end))
        start = _readable_start(partition, start, end, earliest[partition], options)
        ranges.append(OffsetRange(*partition, start, end, topic_ids[partition.topic]))
    return ranges


def _readable_start(partition: TopicPartition, start: int, end: int, earliest: int, options: SourceOptions) -> int:
    if start >= min(earliest, end):
        return start
    what = f"startingOffsets is {start} for {partition.topic}-{partition.partition}, which now starts at {earliest}."
    options.data_loss.apply(what, Lost(*partition, start, min(earliest, end)))
    return earliest
