"""When the partitions of a timer topic were served: the measure of how late a record may be.

A write that was sent after a record was due, and is acknowledged, shows that the partition had a leader which committed
meanwhile.  So the leader must have released the record by then, or release it soon.  The longest time that any write of
the run took is its longest failover, on this machine and under this load.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from tests.fault.steady_load import QUICK

PACE_S = 0.1  # between two writes to a partition
LEFT_S = 120.0  # the longest wait for the last acknowledgements
REQUEST_MS_MAX = 1_500
NO_TIMER = b"no timer"


class Write(NamedTuple):
    """An acknowledged write.  Times are in ms since the epoch."""

    sent_ms: int
    acknowledged_ms: int


class ServedTimes:
    def __init__(self, writes: Sequence[Sequence[Write]]) -> None:
        """`writes` are those to each partition, in the order in which they were sent."""
        self.failover_ms = max(it.acknowledged_ms - it.sent_ms for of_partition in writes for it in of_partition)
        self._sent = [[it.sent_ms for it in of_partition] for of_partition in writes]
        self._served = [
            [*accumulate((it.acknowledged_ms for it in reversed(of_partition)), min)][::-1] for of_partition in writes
        ]

    def served_ms(self, partition: int, since_ms: int) -> int:
        """Return by when a partition has served a write that was sent at `since_ms` or later."""
        at = bisect_left(self._sent[partition], since_ms)
        assert at < len(self._sent[partition]), f"nothing was written to partition {partition} from {since_ms} on"
        return self._served[partition][at]


class TimerProbe(threading.Thread):
    """Writes to all partitions at a steady pace: records that cancel a timer which does not exist, and never wait."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name="timer probe", daemon=True)
        self._topic = topic
        self._writes: list[list[tuple[int, list[int]]]] = [[] for _ in range(partitions)]
        self._client = Producer({
            "bootstrap.servers": bootstrap,
            # An idempotent producer has few requests in flight, and librdkafka's thread takes a whole core while more
            # records than those wait for a slow leader.  A write that comes twice, or out of order, is harmless here.
            "enable.idempotence": False,
            "linger.ms": 1,
            "message.timeout.ms": 600_000,
            "request.timeout.ms": REQUEST_MS_MAX,
            "socket.timeout.ms": REQUEST_MS_MAX,
            **QUICK,
        })  # fmt: skip
        self._is_ending = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._is_ending.wait(PACE_S):
                for partition in range(len(self._writes)):
                    self._write(partition)
                self._client.poll(0)
            left = self._client.flush(LEFT_S)
            assert left == 0, f"{left} writes were not acknowledged"
        except BaseException as error:
            self.error = error
            raise

    def stop(self) -> None:
        """Write nothing more."""
        self._is_ending.set()

    def finish(self) -> ServedTimes:
        """Wait until all writes are acknowledged, and return when the partitions were served."""
        self.stop()
        self.join()
        assert self.error is None, self.error
        return ServedTimes([[Write(sent, *done) for sent, done in of_partition] for of_partition in self._writes])

    def _write(self, partition: int) -> None:
        acknowledged: list[int] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            acknowledged.append(_now_ms())

        self._writes[partition].append((_now_ms(), acknowledged))
        headers: list[tuple[str, str | bytes | None]] = [("tidemill-timer-id", NO_TIMER), ("tidemill-cancel", b"")]
        self._client.produce(self._topic, b"", partition=partition, headers=headers, on_delivery=answered)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
