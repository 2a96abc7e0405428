"""How fast partitions grow, from the end offsets that earlier pages read.

No broker counts what another one appends; two looks at the end offset tell it, for every partition that is looked at.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Final

from tidemill.model.clock import Clock
from tidemill.model.partition import TopicPartition

PARTITIONS_MAX: Final = 20_000  # then the partitions seen longest ago are forgotten
SPAN_MS: Final = 5_000  # a rate is measured over one to two spans
FORGOTTEN_MS: Final = 60_000  # a look that is older says nothing about the present


class Rates:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._looks: dict[TopicPartition, tuple[tuple[int, int], tuple[int, int]]] = {}  # older, newer: (time, offset)

    def observe(self, end_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Take note of end offsets.  Return the records per second of the partitions that were seen before."""
        now_ms = self._clock.monotonic_ms()
        rates = {}
        with self._lock:
            for partition, end_offset in end_offsets.items():
                seen = now_ms, end_offset
                older, newer = self._looks.pop(partition, (seen, seen))
                if now_ms - newer[0] > FORGOTTEN_MS or end_offset < older[1]:
                    older = newer = seen
                elif now_ms - newer[0] >= SPAN_MS:
                    older, newer = newer, seen
                self._looks[partition] = older, newer
                if now_ms > older[0]:
                    rates[partition] = (end_offset - older[1]) * 1_000 / (now_ms - older[0])
            while len(self._looks) > PARTITIONS_MAX:
                del self._looks[next(iter(self._looks))]
        return rates
