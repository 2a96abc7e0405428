"""Writes Arrow rows to topics.  It runs in executors, and in programs that use Arrow without Spark.

with TopicWriter(options, schema) as writer:
    writer.write(rows)
    summary = writer.flush()
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from tidemill.batches.row_encoder import EncodedBatch, RowEncoder
from tidemill.client.acknowledgements import NOTHING, Acknowledged
from tidemill.client.failures import UnknownTopic
from tidemill.columnar import producer_pool, row_faults, sink_schema, timer_columns
from tidemill.columnar.row_faults import RowRefused
from tidemill.columnar.row_routing import RoutedRows, routed
from tidemill.columnar.sink_options import SinkOptions
from tidemill.columnar.sink_topics import SinkTopics
from tidemill.model.partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES: Final = 8 << 20  # size of the rows that are routed together, so that batches are not too small


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSummary:
    """What a write has stored.  Every record is acknowledged by all in-sync replicas."""

    records: int = 0
    bytes: int = 0  # compressed size of the record batches
    # Per partition, the offset of the first record and the offset after the last.  Records of other producers may be in
    # between.  An offset is -1 if the broker did not return it.
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


class TopicWriter:
    """
    Writes rows with the columns of Spark's Kafka sink, and keeps their order per partition.  It is not thread-safe.

    `value` is required.  `key`, `headers`, `topic`, `partition` and `timestamp` are optional, and so are `deliver_at`
    and `timer_id`, which only timer topics take; other columns are ignored.  A row goes to its `partition`; without
    one, a row with a key goes to the partition that Java's producer chooses for the key, and rows without a key go to
    one partition after another, a batch each.
    """

    def __init__(self, options: SinkOptions, schema: "pa.Schema") -> None:
        """
        Check the schema, connect to the cluster, and look up the topic if the option `topic` is set.

        If the job has not reached the cluster yet, the cluster must respond within
        `socket.connection.setup.timeout.ms`.  Later, all calls wait for it up to `delivery.timeout.ms`.  Raise
        ValueError for an unsupported schema, or a column that the topic does not take, UnknownTopic, or another
        ClientError.
        """
        sink_schema.check(schema, options.topic)
        self._options = options
        self._pooled = producer_pool.take(options)
        self._topics = SinkTopics(self._pooled.cluster, deadline_ms=options.producer.delivery_timeout_ms)
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._rows_before = 0  # number of rows that were written before the gathered rows
        self._acknowledged: dict[TopicPartition, Acknowledged] = {}
        self._is_open = True
        try:
            if options.topic is None:
                self._topics.reach()
            elif self._topics.learn([options.topic]) is not None:
                raise UnknownTopic(options.topic, "it does not exist in the cluster; create it, or check its name")
            elif timer_columns.has_timer_columns(schema):
                self._check_is_timer(options.topic)
        except BaseException:
            self.close()
            raise

    def write(self, rows: "pa.RecordBatch") -> None:
        """
        Write rows of the schema; wait while the buffer is full.

        Raise RowRefused for a row that cannot be written, and ClientError (DeliveryFailed, UnknownTopic).  After an
        error, earlier rows may or may not be stored.
        """
        size = max(rows.nbytes, 1)
        rows_max = max(rows.num_rows * _GROUP_BYTES // size, 1)
        for start in range(0, rows.num_rows, rows_max):
            piece = rows.slice(start, rows_max)
            self._gathered.append(piece)
            self._gathered_bytes += size * piece.num_rows // rows.num_rows
            if self._gathered_bytes >= _GROUP_BYTES:
                self._send_gathered()

    def flush(self) -> WriteSummary:
        """
        Wait until all rows are acknowledged.

        Return the summary of all rows so far.  Raise the same errors as `write`.
        """
        self._send_gathered()
        for partition, more in self._pooled.producer.flush().items():
            self._acknowledged[partition] = self._acknowledged.get(partition, NOTHING).plus(*more)
        return WriteSummary(
            records=sum(one.records for one in self._acknowledged.values()),
            bytes=sum(one.bytes for one in self._acknowledged.values()),
            offsets={
                partition: (one.first_offset, one.end_offset) for partition, one in sorted(self._acknowledged.items())
            },
        )

    def close(self) -> None:
        """Release the connections.  Rows that have not been flushed may be lost."""
        if self._is_open:
            self._is_open = False
            producer_pool.give_back(self._options, self._pooled)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send_gathered(self) -> None:
        import pyarrow as pa

        if not self._gathered:
            return
        whole = self._gathered[0]
        if len(self._gathered) > 1:
            (whole,) = pa.Table.from_batches(self._gathered).combine_chunks().to_batches()
        self._gathered, self._gathered_bytes = [], 0
        rows = sink_schema.sink_rows(whole, self._options.topic)
        row_faults.check(rows, self._rows_before)
        work = routed(rows, self._options, self._topics, self._rows_before)
        if self._options.topic is None:
            self._check_are_timers(rows)
        self._send(timer_columns.with_timer_headers(rows, self._rows_before), work)
        self._rows_before += rows.num_rows

    def _check_is_timer(self, topic: str) -> None:
        problem = self._topics.not_timer([topic])
        if problem is not None:
            columns = " and ".join(timer_columns.TIMER_COLUMNS)
            raise ValueError(f"topic {topic!r} does not take the columns {columns}: {problem[1]}, or drop the columns")

    def _check_are_timers(self, rows: "pa.RecordBatch") -> None:
        """Refuse a row that is to wait, and whose topic is not of kind timer."""
        import pyarrow.compute as pc

        is_delayed = timer_columns.timer_rows(rows)
        if is_delayed is None:
            return
        topics = rows.column("topic")
        problem = self._topics.not_timer(topics.filter(is_delayed).unique().to_pylist())
        if problem is not None:
            topic, text = problem
            row = pc.index(pc.and_(is_delayed, pc.equal(topics, topic)), True).as_py()
            columns = " and ".join(timer_columns.TIMER_COLUMNS)
            raise RowRefused(
                f"topic {topic!r}, row {self._rows_before + row}: the topic does not take the columns {columns}: "
                f"{text}, or set the columns to null"
            )

    def _send(self, rows: "pa.RecordBatch", work: RoutedRows) -> None:
        settings = self._options.producer
        limits = [limit for topic in work.topics if (limit := self._topics.batch_bytes_max(topic)) is not None]
        encoder = RowEncoder(
            rows,
            time.time_ns() // 1_000_000,
            order=work.order,
            codec=settings.codec,
            level=settings.level,
            batch_bytes_max=min(settings.batch_bytes, settings.request_bytes_max, *limits),
        )
        for partition, first, end in work.runs():
            for encoded in encoder.batches(first, end):
                self._check_size(partition, encoded, work.order)
                self._pooled.producer.send(partition, encoded.batch, encoded.record_count)

    def _check_size(self, partition: TopicPartition, encoded: EncodedBatch, order: Sequence[int]) -> None:
        """
        Refuse a record that is too large by itself.

        The producer divides a batch of several records if necessary.
        """
        size = len(encoded.batch)
        limit = self._topics.batch_bytes_max(partition.topic)
        request_limit = self._options.producer.request_bytes_max
        if encoded.record_count > 1 or (size <= request_limit and (limit is None or size <= limit)):
            return
        if size > request_limit:
            fix = f"kafka.max.request.size={request_limit}: raise it"
        else:
            fix = f"max.message.bytes={limit} of the topic: raise it"
        raise RowRefused(
            f"topic {partition.topic!r}, partition {partition.partition}, row "
            f"{self._rows_before + order[encoded.place]}: its batch has {size} bytes, more than {fix}, set "
            "kafka.compression.type, or split the record"
        )
