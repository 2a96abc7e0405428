"""Reads what waits in the partitions of timer topics.  The plan is made once; executors read one partition each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.waiting_records import WaitingRecords
from tidemill.columnar import waiting_columns
from tidemill.columnar.offset_reader import OffsetReader
from tidemill.columnar.range_reader import cluster_of_process
from tidemill.columnar.row_filter import RowFilter
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId

if TYPE_CHECKING:
    import pyarrow as pa

EVERY_ROW = RowFilter()


@dataclass(frozen=True, slots=True)
class WaitingPartition:
    """The work of one Spark partition: what waits in one partition of a timer topic.  Spark pickles it."""

    topic: str
    partition: int
    topic_id: TopicId | None = None  # the topic id at planning time


def plan(
    options: SourceOptions,
    row_filter: RowFilter = EVERY_ROW,
    make_offset_reader: Callable[[SourceOptions], OffsetReader] = OffsetReader,
) -> list[WaitingPartition]:
    """
    Return the partitions to read.

    Raise ValueError for a topic that is not of kind timer, UnknownTopic, or another ClientError if a request fails.
    """
    reader = make_offset_reader(options)
    try:
        found = sorted(reader.partitions())
        topics = sorted({it.topic for it in found})
        problem = reader.not_timer(topics)
        if problem is not None:
            topic, text = problem
            raise ValueError(f"records=waiting cannot read topic {topic!r}: {text}, or leave the option out")
        topic_ids = reader.topic_ids(topics)
    finally:
        reader.close()
    return [WaitingPartition(*it, topic_ids[it.topic]) for it in found if row_filter.selects(it)]


class WaitingReader:
    """Reads the given columns of records that wait, in the given order."""

    def __init__(
        self, options: SourceOptions, columns: Sequence[str], *, cluster: ClusterMetadata | None = None
    ) -> None:
        """
        `cluster` holds the connections to use.  Without it, the reader uses the connections that this process keeps;
        only one thread may use those.
        """
        self._options = options
        self._columns = columns
        self._own_cluster = cluster

    def record_batches(self, work: WaitingPartition) -> Iterator["pa.RecordBatch"]:
        """Yield what waits in a partition when it is read, in the order of arrival.  Raise ClientError."""
        cluster = self._own_cluster or cluster_of_process(self._options.connection)
        waiting = WaitingRecords(cluster, deadline_ms=self._options.poll_timeout_ms)
        columns = waiting_columns.schema(self._columns, has_headers=True)
        place = TopicPartition(work.topic, work.partition)
        for page in waiting.pages(place, work.topic_id, has_values="value" in self._columns):
            yield waiting_columns.rows_of(page, work.topic, work.partition, columns)
