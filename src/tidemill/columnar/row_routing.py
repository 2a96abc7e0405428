"""Chooses the partition of each row, and groups the rows by partition."""

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidemill.batches.native import scan
from tidemill.batches.row_encoder import binary_buffers, bitmap
from tidemill.columnar.row_faults import RowRefused
from tidemill.columnar.sink_options import SinkOptions
from tidemill.columnar.sink_topics import SinkTopics
from tidemill.model.partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class RoutedRows(NamedTuple):
    """Row numbers grouped by partition, in the original order within each partition."""

    order: "array[int]"
    starts: "array[int]"  # where each partition of each topic starts in `order`; the last item is the number of rows
    topics: Sequence[str]
    counts: Sequence[int]  # the number of partitions, per topic

    def runs(self) -> Iterator[tuple[TopicPartition, int, int]]:
        """Yield each partition that has rows, with the range of its rows in `order`."""
        slot = 0
        for topic, count in zip(self.topics, self.counts, strict=True):
            for partition in range(count):
                first, end = self.starts[slot], self.starts[slot + 1]
                if first < end:
                    yield TopicPartition(topic, partition), first, end
                slot += 1


def routed(rows: "pa.RecordBatch", options: SinkOptions, topics: SinkTopics, rows_before: int) -> RoutedRows:
    """
    Return the rows grouped by partition.

    `rows_before` is the number of the first row.  Raise RowRefused for a topic or a partition that does not exist, and
    ClientError if a request fails.
    """
    names, indices = _topic_names(rows, options)
    missing = topics.learn(names)
    if missing is not None:
        row = 0 if indices is None else list(indices).index(names.index(missing))
        raise RowRefused(
            f"topic {missing!r}, row {rows_before + row}: it does not exist in the cluster; create it, or correct the "
            "column 'topic'"
        )
    for is_second_try in (False, True):
        counts = [topics.partition_count(topic) for topic in names]
        sticky = topics.sticky(names)
        router = _router(rows, options, counts, sticky, indices)
        routed_count, starts, order = router.route()
        if routed_count == rows.num_rows:
            topics.keep_sticky(names, sticky)
            return RoutedRows(order, starts, names, counts)
        if not is_second_try:
            topics.refresh()  # The partition may have been added after the topics were looked up.
    index = 0 if indices is None else indices[routed_count]
    raise RowRefused(
        f"topic {names[index]!r}, partition {rows.column('partition')[routed_count].as_py()}, row "
        f"{rows_before + routed_count}: the topic has partitions 0 to {counts[index] - 1}: correct the column "
        "'partition', or set it to null to route by key"
    )


def _topic_names(rows: "pa.RecordBatch", options: SinkOptions) -> tuple[list[str], memoryview | None]:
    """Return the topics of the rows, and the index of each row's topic, or None if all rows have the same topic."""
    if options.topic is not None:
        return [options.topic], None
    encoded = rows.column("topic").dictionary_encode()
    names: list[str] = encoded.dictionary.to_pylist()
    if len(names) == 1:
        return names, None
    data = memoryview(encoded.indices.buffers()[1]).cast("B").cast("i")
    return names, data[encoded.indices.offset : encoded.indices.offset + rows.num_rows]


def _router(
    rows: "pa.RecordBatch",
    options: SinkOptions,
    counts: Sequence[int],
    sticky: "array[int]",
    indices: memoryview | None,
) -> Any:
    """Return a RowRouter for `rows`, with their columns for topic, partition and key."""
    value_ends = binary_buffers(rows.column("value"))[0]
    router = scan.RowRouter(rows.num_rows, array("i", counts), sticky, options.producer.batch_bytes, value_ends)
    if indices is not None:
        router.have_topics(indices)
    if "partition" in rows.schema.names:
        column = rows.column("partition")
        valid, data = column.buffers()
        numbers = memoryview(data).cast("B").cast("q")[column.offset : column.offset + len(column)]
        router.have_partitions(numbers, bitmap(valid), column.offset)
    if "key" in rows.schema.names and not options.producer.are_keys_ignored:
        router.have_keys(*binary_buffers(rows.column("key")))
    return router
