"""Opens the batches in the look-ahead of shares, off the event loop, one slice after the other."""

from collections.abc import Callable
from typing import Final

from tidemill.broker.machine import Machine
from tidemill.broker.shares.led_share import LedShare
from tidemill.model.errors import KafkaError
from tidemill.shard.partition import Partition
from tidemill.share.opened_batches import OpenedBatches, open_batches
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.partition.segment import SegmentDamaged

SLICE_BYTES: Final = 256 << 10
"""A slice is small, because a thread that opens batches slows down the event loop."""


class LookAheadReader:
    def __init__(
        self,
        machine: Machine,
        is_led: Callable[[LedShare], bool],
        extended: Callable[[LedShare], None],
        read_failed: Callable[[Partition, Exception], int],
    ) -> None:
        """
        `extended` is called when records were opened, or could not be read.  `read_failed` returns the error code for
        a failed read.
        """
        self._machine = machine
        self._is_led = is_led
        self._extended = extended
        self._read_failed = read_failed

    def extend(self, led: LedShare) -> None:
        """Open batches until the look-ahead of a share is long enough, if it has one."""
        available = led.leases.availability
        look_ahead = available.look_ahead
        if look_ahead is None or led.is_opening:
            return
        wall = self._machine.clock.wall_ms()
        end = available.look_ahead_end(led.partition.high_watermark, wall)
        if available.unopened(end) >= end:
            return
        start, high_watermark = look_ahead.end, led.partition.high_watermark
        has_priorities = look_ahead.is_prioritized

        def read() -> OpenedBatches | Exception:
            try:
                found = led.partition.log.read(start, SLICE_BYTES, high_watermark, may_wait=True)
            except (SegmentDamaged, OffsetGone) as error:
                return error
            assert found is not None, "a read that may wait answers"
            return open_batches(found[0], start, has_priorities=has_priorities)

        def done(found: OpenedBatches | Exception) -> None:
            led.is_opening = False
            if not self._is_led(led):
                return
            if isinstance(found, Exception):
                self._failed(led, found)
                return
            if available.look_ahead is look_ahead:
                available.opened(found)
            self.extend(led)
            self._extended(led)

        led.is_opening = True
        self._machine.opening_jobs.submit(read, done, self._machine.failed)

    def _failed(self, led: LedShare, error: Exception) -> None:
        """Let the next fetch be answered with the error.  Records that retention has just removed are no error."""
        code = self._read_failed(led.partition, error)
        if not isinstance(error, OffsetGone):
            led.problem = KafkaError(code, str(error))
            self._extended(led)
