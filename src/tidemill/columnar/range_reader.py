"""Reads an offset range as Arrow record batches.  It runs in executors.

Spark uses a Python worker for many tasks, so a worker keeps its connections to clusters for later tasks.
"""

import atexit
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tidemill.batches.arrow import GROUP_BYTES_MAX, record_batches_from
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import ConnectionSettings
from tidemill.client.failures import OffsetOutOfRange, UnknownTopic
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.columnar.data_loss import Lost
from tidemill.columnar.letter_columns import decoded_columns, with_letter_columns
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.source_options import SourceOptions
from tidemill.model.partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_CLUSTERS_MAX: Final = 4  # clusters whose connections are kept; those of the least recently used one are closed
_clusters: dict[ConnectionSettings, ClusterMetadata] = {}


class RangeReader:
    """Reads the given columns of offset ranges, in the given order."""

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        *,
        cluster: ClusterMetadata | None = None,
        group_bytes_max: int = GROUP_BYTES_MAX,
    ) -> None:
        """
        `cluster` holds the connections to use.  Without it, the reader uses the connections that this process
        keeps; only one thread may use those.

        An Arrow record batch holds at most `group_bytes_max` decompressed bytes of records, or the records of one
        larger Kafka batch.
        """
        self._options = options
        self._columns = columns
        self._decoded_columns = decoded_columns(columns)
        self._own_cluster = cluster
        self._group_bytes_max = group_bytes_max

    def record_batches(self, work: OffsetRange) -> Iterator["pa.RecordBatch"]:
        """
        Yield the records of `work`.

        Raise DataLossError if records are missing and the options say that data loss fails the query, and ClientError
        if a read fails.
        """
        partition = TopicPartition(work.topic, work.partition)
        cluster = self._own_cluster or cluster_of_process(self._options.connection)
        fetcher = RawFetcher(cluster, deadline_ms=self._options.poll_timeout_ms)
        start_offset = work.start_offset
        while start_offset < work.end_offset:
            try:
                for run in fetcher.batches(partition, start_offset, work.end_offset, work.topic_id):
                    for rows in record_batches_from(
                        run,
                        work.topic,
                        work.partition,
                        start_offset=start_offset,
                        end_offset=work.end_offset,
                        columns=self._decoded_columns,
                        check_crc=False,  # the fetcher has checked the CRC
                        group_bytes_max=self._group_bytes_max,
                    ):
                        yield with_letter_columns(rows, self._columns)
            except UnknownTopic as error:
                self._options.data_loss.apply(f"{error}.", Lost(*partition, start_offset, work.end_offset))
                return
            except OffsetOutOfRange as error:
                # The offset is out of range.  If it is not below the log start, it is after the end, and nothing is
                # left to read.
                is_after_end = error.log_start_offset <= error.fetch_offset
                start_offset = work.end_offset if is_after_end else error.log_start_offset
                self._options.data_loss.apply(
                    f"{error}.", Lost(*partition, error.fetch_offset, min(start_offset, work.end_offset))
                )
                continue
            return


def cluster_of_process(settings: ConnectionSettings) -> ClusterMetadata:
    """Return the connections that this process keeps to a cluster; only one thread may use them."""
    cluster = _clusters.pop(settings, None)
    if cluster is None:
        if len(_clusters) >= _CLUSTERS_MAX:
            _clusters.pop(next(iter(_clusters))).close()
        cluster = ClusterMetadata(settings.reached())  # the driver reached the cluster when it planned
    _clusters[settings] = cluster  # The newest key is the last, so the dictionary is ordered by last use.
    return cluster


@atexit.register
def _close_clusters() -> None:
    for cluster in _clusters.values():
        cluster.close()
