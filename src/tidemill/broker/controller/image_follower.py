"""ImageFollower: builds the cluster image of a broker from the committed metadata records.

    metadata shard's log ─▶ committed batches ─▶ apply ─▶ image ─▶ on_image

It works the same way on the controller and on other brokers.  Each process begins at the start of the log.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tidemill.batches.batch import spans
from tidemill.batches.records import read_records
from tidemill.metadata.apply import apply
from tidemill.metadata.feature_levels import checked
from tidemill.metadata.image import EMPTY, ClusterImage
from tidemill.metadata.metadata_records import BrokerRecord, MetadataFormatError, Record, decode
from tidemill.shard.shard import Shard
from tidemill.storage.partition.segment import SegmentDamaged

READ_BYTES: Final = 1 << 20  # per read when all remaining records of the log are applied in one turn
TURN_BYTES: Final = 64 << 10  # bytes of metadata applied per turn of the event loop, in a few milliseconds


class ImageFollower:
    def __init__(
        self,
        *,
        newest_level: int,
        call_soon: Callable[[Callable[[], None]], object],
        failed: Callable[[BaseException], None],
    ) -> None:
        """
        `newest_level` is the highest feature level that this broker supports.  `call_soon` schedules a callback in the
        next turn of the event loop; `failed` ends the process.
        """
        self.image: ClusterImage = EMPTY
        self.on_image: Callable[[ClusterImage, ClusterImage], None] | None = None  # called with (old image, new image)
        self.shard: Shard | None = None  # the metadata shard, once it is open
        self._newest_level = newest_level
        self._call_soon = call_soon
        self._failed = failed
        self._applied = 0  # the metadata offset after the last applied record
        self._partial: ClusterImage | None = None  # the image at `_applied`, if it has not been published yet
        self._is_turn_due = False

    def attach(self, shard: Shard) -> None:
        """Apply the committed records of the metadata shard, which is open, and follow the shard from now on."""
        self.shard = shard
        partition = shard.partitions[0]
        self._applied = partition.log_start
        try:
            self._apply_committed()
        except SegmentDamaged as problem:
            if not shard.damage.suspect(problem):
                raise
        partition.watch(self._catch_up_in_turns)

    @property
    def is_caught_up(self) -> bool:
        """Whether `image` contains everything below the high watermark of the metadata shard."""
        shard = self.shard
        return shard is not None and self._applied >= shard.partitions[0].high_watermark

    def catch_up(self) -> None:
        """
        Apply all committed records and publish the image.  Afterwards, `is_caught_up` shows whether the log could be
        read.
        """
        self._try_apply()

    def _catch_up_in_turns(self) -> None:
        """
        Apply committed records in parts, one per turn of the event loop, because the entire log must be applied after
        an install.  The broker works with the old image until all parts have been applied.
        """
        if not self._is_turn_due:
            self._next_turn()

    def _next_turn(self) -> None:
        self._is_turn_due = self._try_apply(bytes_max=TURN_BYTES)
        if self._is_turn_due:
            self._call_soon(self._next_turn)

    def _try_apply(self, bytes_max: int | None = None) -> bool:
        """
        Apply committed records, and handle a log that cannot be read.  If other replicas can repair the damage, the
        broker keeps its old image until they have done so.  If they cannot, or if the format of a record is unknown,
        the process ends: it could not start with such a log either.
        """
        try:
            return self._apply_committed(bytes_max)
        except SegmentDamaged as problem:
            assert self.shard is not None, "the metadata shard is not open"
            if not self.shard.damage.suspect(problem):
                self._failed(problem)
            return False
        except MetadataFormatError as problem:
            self._failed(problem)
            return False

    def _apply_committed(self, bytes_max: int | None = None) -> bool:
        """
        Apply the records that have been committed since the last call, and publish the image.  If `bytes_max` is given,
        stop after about that many bytes; return True if more records are left, and publish the image only when none are
        left.

        Does nothing during an install: an incomplete log lacks topics, and the broker deletes topics that disappear
        from the image.
        """
        shard = self.shard
        assert shard is not None, "the metadata shard is not open"
        if shard.replica.installing is not None or shard.replica.is_damaged:
            return False
        partition = shard.partitions[0]
        image = self.image if self._partial is None else self._partial
        if self._applied < partition.log_start:  # an install has replaced the log that was being read
            image, self._applied = EMPTY, partition.log_start
            self._partial = image
        bytes_read = 0
        while self._applied < partition.high_watermark:
            if bytes_max is not None and bytes_read >= bytes_max:
                return True
            size = READ_BYTES if bytes_max is None else bytes_max
            found = partition.log.read(self._applied, size, partition.high_watermark, may_wait=True)
            assert found is not None, "a read that may wait answers"
            bytes_read += sum(map(len, found[0]))
            for records, end_offset in self._records_in(found[0]):
                if end_offset > self._applied:
                    image = self._partial = apply(image, records, end_offset=end_offset)
                    self._applied = end_offset
        before, self.image, self._partial = self.image, image, None
        if image is not before and self.on_image is not None:
            self.on_image(before, image)
        return False

    def brokers_heard_of(self) -> Iterator[BrokerRecord]:
        """
        Yield every broker record in the local log, committed or not, as a hint about the addresses of other brokers.
        After a start, this broker must reach other brokers before it can know what is committed.
        """
        assert self.shard is not None, "the metadata shard is not open"
        log = self.shard.partitions[0].log
        offset = log.log_start
        while offset < log.end_offset:
            try:
                found = log.read(offset, READ_BYTES, log.end_offset, may_wait=True)
                assert found is not None, "a read that may wait answers"
                for records, end_offset in self._records_in(found[0]):
                    offset = end_offset
                    yield from (record for record in records if isinstance(record, BrokerRecord))
            except (SegmentDamaged, MetadataFormatError):
                return  # the rest of the log cannot be read: brokers whose records are in it will contact this broker

    def _records_in(self, buffers: list[Any]) -> Iterator[tuple[tuple[Record, ...], int]]:
        """Yield the metadata records of each batch, and the end offset of the batch.  Raise MetadataFormatError."""
        for buffer in buffers:
            for span in spans(buffer):
                batch = memoryview(buffer)[span.position : span.position + span.size]
                decoded = (decode(record.value or b"") for record in read_records(batch))
                yield tuple(checked(decoded, self._newest_level)), span.header.end_offset
