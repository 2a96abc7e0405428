"""Reads a topic's partitions, or those that a group assigns, and prints the records.

The start offset of each partition and, without --follow, the end offset are determined when the command starts.  With a
group, offsets are committed only after their records were written to stdout and flushed.
"""

import json
import signal
import sys
import time
from collections.abc import Collection
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidemill.cli.bootstrap import no_response
from tidemill.cli.kafka import client_config, failed
from tidemill.cli.located_offsets import LocatedOffset, locate
from tidemill.cli.output import reader_has_left
from tidemill.cli.record_json import record_as_json
from tidemill.cli.start_position import StartPosition
from tidemill.cli.topic_admin import TopicAdmin, check_partition

BATCH_RECORDS_MAX: Final = 1_000
BATCH_WAIT_S: Final = 0.1  # poll timeout: bounds batching delay and Ctrl-C latency
COMMIT_EVERY_S: Final = 5.0
# Without --follow, the command fails after this time without a record.  A group waits less for a dead member.
SILENCE_MAX_S: Final = 60.0
NO_GROUP: Final = "tidemill-consume"  # librdkafka requires a group id, but this group is never joined or committed to


class RecordPrinter:
    """
    Prints records for one run of `tidemill consume`: those of the given partitions, or of all partitions if none are
    given.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        position: StartPosition,
        *,
        partitions: Collection[int],
        group: str | None,
        follow: bool,
        count_max: int | None,
        as_json: bool,
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = group
        self._follow = follow
        self._count_left = count_max
        self._as_json = as_json
        self._starts, self._ends = self._bounds(position, partitions)
        self._unfinished = set(self._starts)  # assigned partitions that have records to print; with --follow, all
        self._assigned = False
        self._next_offsets: dict[int, int] = {}  # per partition, the offset to commit: after the last printed record
        config = client_config(
            bootstrap,
            **{
                "group.id": group or NO_GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",  # if retention removes unread records, continue at the log start
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 1,
            },
        )
        self._consumer = Consumer(config)

    def _bounds(self, position: StartPosition, partitions: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
        admin = TopicAdmin(self._bootstrap)
        existing = admin.partitions_of(self._topic)
        for partition in partitions:
            check_partition(self._topic, partition, existing)
        located = locate(admin, self._topic, sorted(set(partitions)) or existing, position)
        for partition, found in located.items():
            if found.is_clamped:
                self._tell_clamped(f"{self._topic}-{partition}", position.offset, found)
        starts = {partition: found.offset for partition, found in located.items()}
        return starts, {partition: found.end_offset for partition, found in located.items()}

    def _tell_clamped(self, partition: str, offset: int | None, found: LocatedOffset) -> None:
        bounds = f"{found.log_start} to {found.end_offset}"
        message = f"{partition} has no offset {offset}; starting at {found.offset} (it has {bounds})"
        row = json.dumps({"event": "start offset adjusted", "message": message}, ensure_ascii=False)
        print(row if self._as_json else f"tidemill: {message}", file=sys.stderr)

    def run(self) -> None:
        """
        Print records until all are printed, `--max` is reached, the pipe is closed or a signal arrives.

        After that, commit offsets and leave the group.  Raise `Failed` if a request fails or no record arrives for
        SILENCE_MAX_S.
        """
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            if self._group is None:
                self._take(TopicPartition(self._topic, partition) for partition in sorted(self._starts))
            else:
                self._consumer.subscribe(
                    [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
                )
            self._print_all()
        finally:
            try:
                self._commit()
            finally:
                self._consumer.close()

    def _take(self, partitions: Any) -> None:
        taken = []
        for partition in partitions:
            start = partition.offset if partition.offset >= 0 else self._starts.get(partition.partition, 0)
            taken.append(TopicPartition(self._topic, partition.partition, start))
        self._consumer.assign(taken)
        self._assigned = True
        self._unfinished = {
            partition.partition
            for partition in taken
            if self._follow or partition.offset < self._ends.get(partition.partition, 0)
        }

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._take(consumer.committed(partitions) if partitions else [])

    def _on_revoke(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        self._commit()
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        """Drop uncommitted offsets: another member already has the partitions and will print these records again."""
        self._next_offsets.clear()
        consumer.unassign()

    def _print_all(self) -> None:
        last_record_at = time.monotonic()
        commit_at = last_record_at + COMMIT_EVERY_S
        while not self._assigned or self._unfinished:
            records = self._consumer.consume(BATCH_RECORDS_MAX, BATCH_WAIT_S)
            for record in records:
                self._print(record)
                if self._count_left == 0:
                    return
            sys.stdout.buffer.flush()
            if not records and reader_has_left():
                return
            now = time.monotonic()
            if now >= commit_at:
                self._commit()
                commit_at = now + COMMIT_EVERY_S
            if records:
                last_record_at = now
            elif not self._follow and now > last_record_at + SILENCE_MAX_S:
                raise no_response(self._bootstrap, f"topic {self._topic!r}: no records for {SILENCE_MAX_S:g} s")

    def _print(self, record: Any) -> None:
        error, partition, offset = record.error(), record.partition(), record.offset()
        if error is not None:
            # The last offsets may belong to control records, which are not delivered, so use the end-of-partition event
            # to detect the end.
            if error.code() != KafkaError._PARTITION_EOF:
                raise failed(error, f"topic {self._topic!r}", self._bootstrap)
            if not self._follow and offset >= self._ends[partition]:
                self._unfinished.discard(partition)
            return
        if not self._follow:
            if partition not in self._unfinished:
                return
            if offset + 1 >= self._ends[partition]:
                self._unfinished.discard(partition)
            if offset >= self._ends[partition]:
                return
        self._write(record)
        self._next_offsets[partition] = offset + 1
        if self._count_left is not None:
            self._count_left -= 1

    def _write(self, record: Any) -> None:
        write = sys.stdout.buffer.write
        if self._as_json:
            write(json.dumps(record_as_json(record), ensure_ascii=False).encode())
        else:
            write(record.value() or b"")
        write(b"\n")

    def _commit(self) -> None:
        if self._group is None or not self._next_offsets:
            return
        sys.stdout.buffer.flush()
        offsets = [TopicPartition(self._topic, *pair) for pair in sorted(self._next_offsets.items())]
        self._next_offsets.clear()
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as exception:
            raise failed(exception.args[0], f"commit of group {self._group!r}", self._bootstrap) from exception
